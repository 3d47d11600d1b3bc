// Where messages are written. DOM.

import { h } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

import { TEXT } from '../text.js';
import { Icon } from './icons.js';

/** @import {App} from '../app.js' */

/** @param {{app: App}} props */
export function Composer({ app }) {
  const thread = app.current.value;
  const { live, stopping, phase } = thread.view.value;
  const text = thread.draft.value;
  const box = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  useLayoutEffect(() => fit(box.current), [text, thread]);
  useEffect(() => {
    // On a phone the keyboard would cover what was asked for.
    if (matchMedia('(hover: hover)').matches) box.current?.focus({ preventScroll: true });
  }, [thread]);

  const send = () => {
    if (!text.trim()) return;
    thread.write('');
    app.send(text);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    // While a word is being composed (East Asian input) Enter belongs to the composition.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const running = live?.turn?.state === 'running' ? live : null;
  const isStopping = running !== null && stopping.includes(running.id);

  return h('form', { class: 'composer', 'data-testid': 'composer', onSubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
    h('textarea', {
      ref: box, rows: 1, value: text, dir: 'auto', 'aria-label': TEXT.composer, 'data-testid': 'input',
      placeholder: running ? TEXT.composerQueueHint : TEXT.composerHint, disabled: phase === 'missing',
      onInput: (/** @type {{currentTarget: HTMLTextAreaElement}} */ event) => thread.write(event.currentTarget.value), onKeyDown,
    }),
    running ? h('button', { type: 'button', class: 'round stop', title: TEXT.stop, 'aria-label': isStopping ? TEXT.stopping : TEXT.stop, disabled: isStopping,
      'data-testid': 'stop', onClick: () => thread.stop(running.id) }, h(Icon, { name: 'stop' })) : null,
    h('button', { type: 'submit', class: 'round send', title: TEXT.send, 'aria-label': TEXT.send, disabled: !text.trim(), 'data-testid': 'send' },
      h(Icon, { name: 'up' })));
}

/** The box grows with its text, up to a limit that the style sheet sets. @param {HTMLTextAreaElement|null} box */
function fit(box) {
  if (!box) return;
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight}px`;
}
