// Below a thread that was deleted: leads on, with what was written. DOM.

import { h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';

/** @import {App} from '../app.js' */
/** @import {Thread} from '../thread.js' */

/** @param {{app: App, thread: Thread}} props */
export function Gone({ app, thread }) {
  const button = useRef(/** @type {HTMLButtonElement|null} */ (null));
  const files = thread.files.files.value;
  const pending = files.some(({ state }) => state === 'sending');
  const kept = Boolean(thread.draft.value.trim()) || files.some(({ state }) => state !== 'refused');
  useEffect(() => {
    keepRewriting(thread);
    // In the box there is nothing to be done; who was writing is not moved.
    if (!thread.draft.peek() && document.activeElement?.matches('[data-testid="input"]')) button.current?.focus();
  }, [thread]);
  return h('div', { class: 'bar' },
    h('p', { 'data-testid': 'gone-note' }, kept ? MORE.goneDraft : null),
    h('button', { ref: button, type: 'button', class: 'primary', disabled: pending, title: pending ? TEXT.filesPending : undefined, 'data-testid': 'gone-new', onClick: () => leave(app, thread) },
      kept ? MORE.goneTake : TEXT.newThread));
}

/** The question that was being rewritten is not there any more: its new words go into the box. @param {Thread} thread */
function keepRewriting({ edits, draft, write }) {
  const id = edits.message.peek();
  if (!id) return;
  write(joined(draft.peek(), edits.textOf(id) ?? ''));
  edits.end(id);
}

/** To a new thread; what was written goes along, behind what is there already. @param {App} app @param {Thread} gone */
function leave(app, gone) {
  const text = gone.draft.peek();
  const parts = gone.files.take();
  gone.write('');
  app.open(null);
  const fresh = app.current.peek();
  fresh.write(joined(fresh.draft.peek(), text));
  if (parts.length) fresh.files.putBack(parts);
}

/** @param {string[]} texts */
function joined(...texts) {
  return texts.filter((text) => text.trim()).join('\n\n');
}
