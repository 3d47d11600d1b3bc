import '@preact/signals'; // makes components follow the signals they read
import { h, render } from 'preact';

import './styles/base.css';
import './styles/page.css';
import './styles/list.css';
import './styles/conversation.css';
import './styles/cards.css';
import './styles/markdown.css';
import './styles/composer.css';
import { createApp } from './app.js';
import { workOffline } from './offline.js';
import { loadWhenIdle } from './views/lazy.js';
import { Page } from './views/page.js';

render(h(Page, { app: createApp(window) }), /** @type {HTMLElement} */ (document.getElementById('app')));
loadWhenIdle();
workOffline(window);
