// What is asked or shown above the page. DOM.

import { h } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';
import { Icon, IconButton } from './icons.js';
import { settingsOf } from './settings_button.js';
import { focusBox } from './writing.js';

/** @import {ComponentChildren} from 'preact' */
/** @import {App} from '../app.js' */

/** @param {{app: App}} props */
export function Dialogs({ app }) {
  const open = app.dialog.value;
  const close = () => { app.dialog.value = null; };
  switch (open?.name) {
    case 'settings': return h(Settings, { key: app.currentId.value, app, close });
    case 'shortcuts': return h(Shortcuts, { app, close });
    case 'remove': return h(Remove, { key: open.thread, app, id: open.thread ?? '', close });
    default: return null;
  }
}

/**
 * Focus stays inside and goes back where it was. Escape, a click beside it and its own button close it.
 * @param {{name: string, title: string, close: () => void, children?: ComponentChildren}} props
 */
function Dialog({ name, title, close, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  useLayoutEffect(() => {
    const { current } = dialog;
    current?.showModal();
    return () => current?.close();
  }, []);
  return h('dialog', {
    ref: dialog, class: `dialog ${name}`, 'aria-labelledby': `${name}-title`, 'data-testid': `dialog-${name}`, onClose: close,
    onClick: (/** @type {MouseEvent} */ { target }) => target === dialog.current && close(),
  }, h('div', { class: 'inside' },
    h('div', { class: 'head' }, h('h2', { id: `${name}-title` }, title), h(IconButton, { icon: 'close', label: MORE.close, testid: 'dialog-close', onClick: close })),
    children));
}

/** @param {{app: App, close: () => void}} props */
function Settings({ app, close }) {
  const { model, instructions } = settingsOf(app);
  const known = app.models.value;
  const [text, setText] = useState(instructions ?? '');
  const thread = app.current.value;
  useEffect(() => {
    // Whether they answer may have changed since; what was known stays until it is known.
    app.api.models().then((now) => { app.models.value = now; }, () => undefined);
  }, [app]);
  const save = () => {
    if (text !== (instructions ?? '')) thread.set({ instructions: text.trim() ? text : null });
  };
  /** @param {string|null} value @param {string} label @param {string} [note] @param {string} [problem] */
  const choice = (value, label, note, problem) => h('label', { key: value ?? '', class: model === value ? 'chosen' : undefined },
    h('input', { type: 'radio', name: 'model', checked: model === value, 'data-testid': 'model-choice', value: value ?? '', onChange: () => thread.set({ model: value }) }),
    h('span', { class: 'what' }, h('span', null, label), note ? h('span', { class: 'note' }, note) : null,
      problem ? h('span', { class: 'problem', 'data-testid': 'model-problem' }, h(Icon, { name: 'warn' }), h('span', null, problem)) : null));
  return h(Dialog, { name: 'settings', title: TEXT.settings, close: () => { save(); close(); } },
    h('fieldset', null,
      h('legend', null, MORE.settingsModel),
      choice(null, MORE.settingsDefault(known?.default ?? ''), '', known?.models.find(({ name }) => name === known.default)?.problem),
      known?.models.map(({ name, provider, model: inside, demo, problem }) => choice(name, name, demo ? MORE.demoModel : inside === name ? provider : `${provider}: ${inside}`, problem))),
    h('label', { class: 'field' }, TEXT.settingsInstructions,
      h('textarea', { value: text, rows: 4, dir: 'auto', maxLength: 100_000, placeholder: MORE.settingsInstructionsHint, 'data-testid': 'instructions',
        onInput: (/** @type {{currentTarget: HTMLTextAreaElement}} */ { currentTarget }) => setText(currentTarget.value), onBlur: save })),
    h('p', { class: 'note' }, MORE.settingsNote));
}

/** @param {{app: App, id: string, close: () => void}} props */
function Remove({ app, id, close }) {
  const title = app.threads.list.value.threads.find((thread) => thread.id === id)?.title || TEXT.untitled;
  const remove = () => {
    const shown = id === app.currentId.peek();
    const row = document.querySelector(`[data-testid="thread"][data-id="${CSS.escape(id)}"]`);
    const beside = row?.nextElementSibling ?? row?.previousElementSibling;
    close();
    void app.manage.remove(id);
    setTimeout(() => { // it is drawn then, and what had the focus is gone
      if (shown) focusBox();
      for (const next of [beside, document.querySelector('nav')]) {
        if (document.activeElement === document.body) next?.querySelector('a')?.focus();
      }
    });
  };
  return h(Dialog, { name: 'remove', title: MORE.removeTitle, close },
    h('p', { dir: 'auto' }, MORE.removeNote(title)),
    h('div', { class: 'actions' },
      h('button', { type: 'button', autoFocus: true, 'data-testid': 'cancel', onClick: close }, MORE.cancel),
      h('button', { type: 'button', class: 'danger', 'data-testid': 'confirm-delete', onClick: remove }, MORE.remove)));
}

/** @param {{app: App, close: () => void}} props */
function Shortcuts({ app, close }) {
  const { singleKeys } = app.preferences;
  return h(Dialog, { name: 'shortcuts', title: TEXT.shortcuts, close },
    h('dl', { class: 'keys' }, MORE.shortcutList.map(([keys, what]) => h('div', { key: what },
      h('dt', null, keys.split(' ').map((key) => h('kbd', null, keyName(key)))), h('dd', null, what)))),
    h('label', { class: 'check' },
      h('input', { type: 'checkbox', checked: singleKeys.value, 'data-testid': 'single-keys',
        onChange: (/** @type {{currentTarget: HTMLInputElement}} */ { currentTarget }) => { singleKeys.value = currentTarget.checked; } }),
      MORE.shortcutsSingle));
}

/** @param {string} key */
function keyName(key) {
  const mac = /Mac|iP/.test(navigator.platform) ? MORE.keys[`${key}Mac`] : undefined;
  return mac ?? MORE.keys[key] ?? key;
}
