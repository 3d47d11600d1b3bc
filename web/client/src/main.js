import '@preact/signals'; // makes components follow the signals they read
import { h, render } from 'preact';

import './style.css';
import { createApp } from './app.js';
import { loadWhenIdle } from './views/lazy.js';
import { Page } from './views/page.js';

render(h(Page, { app: createApp(window) }), /** @type {HTMLElement} */ (document.getElementById('app')));
loadWhenIdle();
