// Files for the message that is being written: by button, by paste, by drop. DOM.

import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { Icon, IconButton } from './icons.js';

/** @import {App} from '../app.js' */
/** @import {Thread} from '../thread.js' */

/** What the button offers first; the server looks at the bytes. */
const OFFERED = 'image/png,image/jpeg,image/gif,image/webp,text/*,.md,.json,.csv,.log,.py,.js,.ts,.rs,.go,.c,.h,.cpp,.java,.sh,.sql,.yaml,.yml,.toml,.xml';

/** @param {DataTransfer|null} data @returns {File[]} */
const filesIn = (data) => [...(data?.files ?? [])];

/** More than this is nothing to be edited in a message, and boxes of browsers are slow with it. */
const LONGEST_PASTE = 32_000;

/**
 * What a paste brings; a text that comes with a picture of itself, as from a table, is a text. A very long one is a file.
 * @param {ClipboardEvent} event
 * @returns {File[]}
 */
export function filesPasted({ clipboardData }) {
  if (!clipboardData?.types.includes('text/plain')) return filesIn(clipboardData);
  const text = clipboardData.getData('text/plain');
  return text.length > LONGEST_PASTE ? [new File([text], TEXT.pastedName, { type: 'text/plain' })] : [];
}

/** @param {App} app @returns {number|undefined} bytes */
export const limitOf = (app) => app.models.value?.limits.attachment;

/** @param {{app: App, thread: Thread}} props */
export function AttachButton({ app, thread }) {
  const input = useRef(/** @type {HTMLInputElement|null} */ (null));
  const limit = limitOf(app);
  const onChange = () => {
    const { current } = input;
    thread.files.add(current?.files ?? []);
    if (current) current.value = ''; // so that the same file can be chosen again
  };
  return [
    h(IconButton, { key: 'button', icon: 'attach', label: limit ? TEXT.attachLimit(TEXT.size(limit)) : TEXT.attach, testid: 'attach', onClick: () => input.current?.click() }),
    h('input', { key: 'input', ref: input, type: 'file', multiple: true, accept: OFFERED, hidden: true, tabIndex: -1, 'aria-hidden': 'true', 'data-testid': 'file-input', onChange }),
  ];
}

/** Takes files that are dropped anywhere on the page. @param {{app: App}} props */
export function DropZone({ app }) {
  const [over, setOver] = useState(false);
  useEffect(() => {
    let depth = 0; // enter and leave come for every element that is crossed
    /** @param {DragEvent} event */
    const isFiles = (event) => event.dataTransfer?.types.includes('Files') ?? false;
    /** @param {number} next */
    const set = (next) => {
      depth = Math.max(0, next);
      setOver(depth > 0);
    };
    /** @type {Record<string, (event: DragEvent) => void>} */
    const listeners = {
      dragenter: (event) => isFiles(event) && set(depth + 1),
      dragleave: (event) => isFiles(event) && set(depth - 1),
      dragover: (event) => isFiles(event) && event.preventDefault(),
      drop(event) {
        if (!isFiles(event)) return;
        event.preventDefault();
        set(0);
        app.current.peek().files.add(filesIn(event.dataTransfer));
      },
    };
    const pairs = /** @type {[string, (event: any) => void][]} */ (Object.entries(listeners));
    for (const [type, listener] of pairs) window.addEventListener(type, listener);
    return () => {
      for (const [type, listener] of pairs) window.removeEventListener(type, listener);
    };
  }, [app]);
  return over ? h('div', { class: 'drop', 'data-testid': 'drop' }, h('p', null, h(Icon, { name: 'attach' }), ' ', TEXT.dropHere)) : null;
}
