// What can be done with a thread of the list. DOM.

import { h } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import { MORE } from '../text_extras.js';
import { Icon } from './icons.js';

/** @import {App} from '../app.js' */
/** @import {ThreadInfo} from '../types.js' */

/** Between the button and its menu, and between the menu and the edge of the window. */
const GAP_PX = 4;

/** @param {{app: App, thread: ThreadInfo, anchor: HTMLElement, rename: () => void, close: () => void}} props */
export function ThreadMenu({ app, thread: { id, pinned }, anchor, rename, close }) {
  const menu = useRef(/** @type {HTMLElement|null} */ (null));
  useLayoutEffect(() => {
    const { current } = menu;
    if (!current) return undefined;
    current.showPopover(); // closes by itself: Escape, a click elsewhere
    place(current, anchor);
    /** @type {HTMLElement|null} */ (current.firstElementChild)?.focus();
    anchor.setAttribute('aria-expanded', 'true');
    return () => anchor.removeAttribute('aria-expanded');
  }, [anchor]);

  const leave = () => {
    if (menu.current?.contains(document.activeElement)) anchor.focus();
    close();
  };
  /** @param {() => void} act */
  const choose = (act) => () => {
    leave();
    act();
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const items = /** @type {HTMLElement[]} */ ([...(menu.current?.children ?? [])]);
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    /** @type {Record<string, number>} */
    const targets = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    if (event.key === 'Tab') leave();
    if (!(event.key in targets)) return;
    event.preventDefault();
    items.at(targets[event.key] % items.length)?.focus();
  };
  /** @param {string} icon @param {string} label @param {string} testid @param {() => void} act @param {string} [kind] */
  const item = (icon, label, testid, act, kind) =>
    h('button', { type: 'button', role: 'menuitem', tabIndex: -1, class: kind, 'data-testid': testid, onClick: choose(act) }, h(Icon, { name: icon }), label);
  /** @param {'markdown'|'json'} format @param {string} label */
  const download = (format, label) =>
    h('a', { role: 'menuitem', tabIndex: -1, href: app.api.exported(id, format), download: '', 'data-testid': `export-${format}`, onClick: leave }, h(Icon, { name: 'download' }), label);
  return h('div', { ref: menu, class: 'menu-list', role: 'menu', popover: 'auto', 'data-testid': 'menu-list', onKeyDown,
    onToggle: (/** @type {ToggleEvent} */ { newState }) => newState === 'closed' && leave() },
    item('edit', MORE.rename, 'rename', rename),
    item('pin', pinned ? MORE.unpin : MORE.pin, 'pin', () => void app.manage.change(id, { pinned: !pinned })),
    download('markdown', MORE.exportMarkdown),
    download('json', MORE.exportJson),
    item('remove', MORE.remove, 'delete', () => { app.dialog.value = { name: 'remove', thread: id }; }, 'danger'));
}

/** Below the button, or above it where there is no room. @param {HTMLElement} menu @param {HTMLElement} anchor */
function place(menu, anchor) {
  const at = anchor.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const below = at.bottom + GAP_PX;
  const top = below + height > innerHeight ? at.top - GAP_PX - height : below;
  const left = Math.min(at.left, innerWidth - width - GAP_PX);
  menu.style.top = `${Math.max(GAP_PX, top)}px`;
  menu.style.left = `${Math.max(GAP_PX, left)}px`;
}

/** @param {{app: App, thread: ThreadInfo, done: () => void}} props */
export function Rename({ app, thread: { id, title }, done }) {
  const box = useRef(/** @type {HTMLInputElement|null} */ (null));
  const over = useRef(false); // set by the first of Enter, Escape and leaving; the others come after it
  useLayoutEffect(() => box.current?.select(), []);
  /** @param {boolean} save */
  const end = (save) => {
    if (over.current) return;
    over.current = true;
    const next = box.current?.value.trim();
    if (save && next && next !== title) void app.manage.change(id, { title: next });
    done();
  };
  return h('input', {
    ref: box, class: 'rename', defaultValue: title ?? '', maxLength: 200, dir: 'auto', 'aria-label': MORE.newTitle, 'data-testid': 'rename-input',
    onBlur: () => end(true),
    onKeyDown: (/** @type {KeyboardEvent} */ event) => {
      if (event.isComposing || (event.key !== 'Enter' && event.key !== 'Escape')) return;
      event.stopPropagation();
      end(event.key === 'Enter');
    },
  });
}
