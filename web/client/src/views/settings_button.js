// Shows which model answers, and opens the choice. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { Icon } from './icons.js';

/** @import {App} from '../app.js' */

/** @param {{app: App}} props */
export function SettingsButton({ app }) {
  const { model, instructions } = settingsOf(app);
  const name = model ?? app.models.value?.default ?? '';
  return h('button', { type: 'button', class: 'quiet settings', title: TEXT.settings, 'aria-haspopup': 'dialog', 'data-testid': 'settings', onClick: () => { app.dialog.value = { name: 'settings' }; } },
    h(Icon, { name: 'settings' }),
    h('span', { class: 'hidden' }, TEXT.settings),
    h('span', { class: 'model', 'data-testid': 'model' }, name),
    instructions ? h('span', { class: 'has-instructions', title: TEXT.settingsInstructions }) : null);
}

/** What the shown thread is answered with. @param {App} app */
export function settingsOf(app) {
  const thread = app.current.value;
  const { model = null, instructions = null } = thread.view.value.info ?? thread.wishes.value;
  return { model, instructions };
}
