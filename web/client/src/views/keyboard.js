// Keys that work everywhere on the page; MORE.shortcutList tells them. DOM.

import { useEffect } from 'preact/hooks';

import { branch, plainText } from '../thread_state.js';
import { copyText } from './copy_button.js';
import { isWriting } from './writing.js';

/** @import {App} from '../app.js' */

/** @param {App} app @param {(open: boolean, first?: string) => void} showSide shows the list of threads, where the window hides it */
export function useKeyboard(app, showSide) {
  useEffect(() => {
    const keys = keysOf(app, showSide);
    /** @param {KeyboardEvent} event */
    const onKeyDown = (event) => {
      if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
      const act = keys.get(nameOf(event));
      const single = !event.ctrlKey && !event.metaKey && !event.altKey;
      if (!act || (single && (isWriting(event.target) || !app.preferences.singleKeys.value))) return;
      event.preventDefault();
      act();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => document.removeEventListener('keydown', onKeyDown);
  }, [app]);
}

/** @param {KeyboardEvent} event */
function nameOf({ key, ctrlKey, metaKey, altKey, shiftKey }) {
  const mod = ctrlKey || metaKey;
  // What Shift does to a character is in the character already.
  const shift = shiftKey && mod ? 'Shift ' : '';
  return `${mod ? 'Mod ' : ''}${altKey ? 'Alt ' : ''}${shift}${key.length === 1 ? key.toLowerCase() : key}`;
}

/** @param {App} app @param {(open: boolean, first?: string) => void} showSide @returns {Map<string, () => void>} */
function keysOf(app, showSide) {
  const thread = () => app.current.peek();
  return new Map([
    ['?', () => { app.dialog.value = { name: 'shortcuts' }; }],
    ['/', () => focus('[data-testid="input"]')],
    ['Mod k', () => {
      const box = '[data-testid="search"]';
      showSide(true, box);
      /** @type {HTMLInputElement|null} */ (focus(box))?.select(); // what is typed is another search
    }],
    ['Mod Shift o', () => app.open(null)],
    ['Mod .', () => {
      const { live } = thread().view.peek();
      if (live) void thread().stop(live.id);
    }],
    ['Mod Shift c', () => {
      const { messages, leaf } = thread().view.peek();
      const last = branch(messages, leaf).findLast(({ role, fold }) => role === 'assistant' && plainText(fold));
      if (last) copyText(plainText(last.fold)).catch(() => undefined);
    }],
    ['Alt ArrowUp', () => step(-1)],
    ['Alt ArrowDown', () => step(1)],
  ]);
}

/** @param {string} selector */
function focus(selector) {
  const found = /** @type {HTMLElement|null} */ (document.querySelector(selector));
  found?.focus();
  return found;
}

/** To the message before or after the one that has the focus, else the last one. @param {1|-1} direction */
function step(direction) {
  const messages = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('[data-testid="message"]')]);
  const at = messages.findIndex((message) => message.contains(document.activeElement));
  const next = messages[at < 0 ? messages.length - 1 : at + direction];
  // Else browsers do not show it: to them Alt with a key is no use of the keyboard.
  next?.focus(/** @type {FocusOptions} */ ({ preventScroll: true, focusVisible: true }));
  next?.scrollIntoView({ block: 'nearest' });
}
