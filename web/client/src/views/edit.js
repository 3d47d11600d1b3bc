// Rewrites a message: the new version begins a branch, the old one stays. DOM.

import { h } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';
import { plainText } from '../thread_state.js';
import { fit, focusBox, isSendKey } from './writing.js';
import { Files, filesOf } from './files.js';

/** @import {Thread} from '../thread.js' */
/** @import {Message} from '../thread_state.js' */

/** @param {{message: Message, thread: Thread}} props */
export function Edit({ message, thread }) {
  const { id } = message;
  const [text, setText] = useState(() => thread.edits.textOf(id) ?? plainText(message.fold));
  const box = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  const files = filesOf(message.fold.parts);
  const blank = !text.trim() && !files.length;
  useLayoutEffect(() => fit(box.current), [text]);
  useLayoutEffect(() => {
    box.current?.focus();
    box.current?.setSelectionRange(text.length, text.length);
  }, []);

  const close = () => {
    thread.edits.end(id);
    focusBox();
  };
  const send = () => {
    if (blank || thread.edits.message.peek() !== id) return; // sent by the first of two clicks
    close();
    thread.rewrite(message, text, files);
  };
  const onInput = (/** @type {{currentTarget: HTMLTextAreaElement}} */ { currentTarget }) => {
    setText(currentTarget.value);
    thread.edits.write(id, currentTarget.value);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      close();
    } else if (isSendKey(event)) {
      event.preventDefault();
      send();
    }
  };
  return h('form', { class: 'edit', 'data-testid': 'edit-form', onSubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
    h(Files, { files, addressOf: thread.fileAddress }),
    h('textarea', { ref: box, value: text, rows: 1, dir: 'auto', 'aria-label': MORE.editMessage, 'data-testid': 'edit-input', onKeyDown,
      onInput }),
    h('div', { class: 'actions' },
      h('button', { type: 'button', 'data-testid': 'edit-cancel', onClick: close }, MORE.cancel),
      h('button', { type: 'submit', class: 'primary', disabled: blank, 'data-testid': 'edit-send' }, TEXT.send)));
}
