// Where messages are written. DOM.

import { h } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

import { TEXT } from '../text.js';
import { branch, plainText } from '../thread_state.js';
import { AttachButton, filesPasted } from './attaching.js';
import { Icon } from './icons.js';
import { lazy } from './lazy.js';
import { SettingsButton } from './settings_button.js';
import { fit, focusBox, hasTouchKeyboard, isSendKey } from './writing.js';

/** @import {App} from '../app.js' */
/** @import {Thread} from '../thread.js' */

const DraftFileList = lazy((extras) => extras.DraftFileList);
const Gone = lazy((extras) => extras.Gone);

/** @param {{app: App}} props */
export function Composer({ app }) {
  const thread = app.current.value;
  const { live, stopping, phase } = thread.view.value;
  const text = thread.draft.value;
  const files = thread.files.files.value;
  const box = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  useLayoutEffect(() => fit(box.current), [text, thread]);
  useEffect(() => {
    // On a phone the keyboard would cover what was asked for.
    const reading = thread.wanted.peek() !== null || document.activeElement?.closest('.message');
    if (!hasTouchKeyboard() && !reading) box.current?.focus({ preventScroll: true });
  }, [thread]);

  const pending = files.some(({ state }) => state === 'sending');
  const missing = phase === 'missing'; // what was being written stays readable
  const blank = !text.trim() && !files.some(({ state }) => state === 'ready');
  /** @param {'queue'|'interrupt'} [during] */
  const send = (during) => {
    if (blank || pending || missing) return;
    app.send(during);
    focusBox();
  };
  const stop = () => {
    if (running) void thread.stop(running.id);
    focusBox(); // the button goes
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (isSendKey(event)) {
      event.preventDefault();
      send(event.ctrlKey || event.metaKey ? 'interrupt' : 'queue');
    } else if (event.key === 'ArrowUp' && !event.altKey && !text && editLast(thread)) {
      event.preventDefault();
    }
  };
  /** @param {ClipboardEvent} event */
  const onPaste = (event) => {
    const pasted = filesPasted(event);
    if (!pasted.length || missing) return;
    event.preventDefault();
    thread.files.add(pasted);
  };
  const running = live?.turn?.state === 'running' ? live : null;
  const isStopping = running !== null && stopping.includes(running.id);

  return h('form', { class: `composer ${missing ? 'gone' : ''}`, 'data-testid': 'composer', onSubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
    files.length ? h(DraftFileList, { app, thread }) : null,
    h('textarea', {
      ref: box, rows: 1, value: text, dir: 'auto', 'aria-label': TEXT.composer, 'data-testid': 'input',
      placeholder: missing ? TEXT.composerGone : running ? TEXT.composerQueueHint : TEXT.composerHint, readOnly: missing,
      enterKeyHint: hasTouchKeyboard() ? 'enter' : 'send',
      onInput: (/** @type {{currentTarget: HTMLTextAreaElement}} */ event) => thread.write(event.currentTarget.value), onKeyDown, onPaste,
    }),
    missing ? h(Gone, { app, thread }) : h('div', { class: 'bar' },
      h(AttachButton, { app, thread }),
      h(SettingsButton, { app }),
      running ? h('button', { type: 'button', class: 'round stop', title: TEXT.stop, 'aria-label': isStopping ? TEXT.stopping : TEXT.stop, disabled: isStopping,
        'data-testid': 'stop', onClick: stop }, h(Icon, { name: 'stop' })) : null,
      h('button', { type: 'submit', class: 'round send', title: pending ? TEXT.filesPending : TEXT.send, 'aria-label': TEXT.send, disabled: blank || pending, 'data-testid': 'send' },
        h(Icon, { name: 'up' }))));
}

/** @param {Thread} thread @returns {boolean} whether there is one */
function editLast(thread) {
  const { messages, leaf } = thread.view.peek();
  const last = branch(messages, leaf).findLast(({ role, fold }) => role === 'user' && plainText(fold));
  if (last) thread.edits.begin(last.id);
  return last !== undefined;
}
