// The list of threads, and the search over them. DOM.

import { h } from 'preact';
import { useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { Icon, IconButton } from './icons.js';
import { lazy } from './lazy.js';

/** @import {App} from '../app.js' */
/** @import {ThreadInfo} from '../types.js' */

const SearchResults = lazy((extras) => extras.SearchResults);
const ThreadMenu = lazy((extras) => extras.ThreadMenu);
const Rename = lazy((extras) => extras.Rename);

/** @param {{app: App, close: () => void}} props */
export function ThreadList({ app, close }) {
  const { threads, next, loaded } = app.threads.list.value;
  const current = app.currentId.value;
  const [menu, setMenu] = useState(/** @type {{thread: ThreadInfo, anchor: HTMLElement}|null} */ (null));
  const [renaming, setRenaming] = useState(/** @type {string|null} */ (null));
  /** @param {string|null} id @param {string} [message] */
  const open = (id, message) => (/** @type {MouseEvent} */ event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return; // a new tab or window
    event.preventDefault();
    app.open(id, message);
    close();
  };
  return h('nav', { class: 'threads', 'aria-label': TEXT.threads, 'data-testid': 'threads' },
    h('a', { class: 'new', href: app.hrefOf(''), onClick: open(null), 'data-testid': 'new-thread' }, h(Icon, { name: 'plus' }), TEXT.newThread),
    h(SearchBox, { app }),
    app.search.found.value.query.trim() ? h(SearchResults, { app, open }) : [
      h('ul', { key: 'list' }, threads.map((thread) => h('li', { key: thread.id, class: thread.id === current ? 'current' : undefined, 'data-testid': 'thread', 'data-id': thread.id, 'data-state': thread.state },
        renaming === thread.id
          ? h(Rename, { app, thread, done: () => setRenaming(null) })
          : h(Entry, { thread, unread: app.notices.unread.value.has(thread.id), current: thread.id === current, href: app.hrefOf(thread.id), onClick: open(thread.id),
            onMenu: (anchor) => setMenu({ thread, anchor }) })))),
      loaded && !threads.length ? h('p', { key: 'empty', class: 'empty' }, TEXT.noThreads) : null,
      next ? h('button', { key: 'older', type: 'button', class: 'quiet', onClick: app.threads.more, 'data-testid': 'older' }, TEXT.older) : null,
    ],
    menu ? h(ThreadMenu, { key: menu.thread.id, app, ...menu, rename: () => setRenaming(menu.thread.id), close: () => setMenu(null) }) : null);
}

/** @param {{thread: ThreadInfo, unread: boolean, current: boolean, href: string, onClick: (event: MouseEvent) => void, onMenu: (anchor: HTMLElement) => void}} props */
function Entry({ thread: { title, state, pinned }, unread, current, href, onClick, onMenu }) {
  return [
    h('a', { key: 'link', href, onClick, 'aria-current': current ? 'page' : undefined, dir: 'auto', title: title ?? undefined },
      pinned ? h('span', { class: 'pinned', role: 'img', 'aria-label': TEXT.pinned }, h(Icon, { name: 'pin' })) : null,
      h('span', { class: 'title' }, title || TEXT.untitled),
      unread ? h('span', { class: 'badge unread', role: 'img', 'aria-label': TEXT.unread, 'data-testid': 'unread' }) : null,
      state === 'idle' ? null : h('span', { class: `badge ${state}`, role: 'img', 'aria-label': state === 'running' ? TEXT.working : TEXT.waitingInQueue })),
    h(IconButton, { key: 'menu', icon: 'more', label: TEXT.threadMenu(title || TEXT.untitled), testid: 'thread-menu', 'aria-haspopup': 'menu',
      onClick: (/** @type {MouseEvent} */ { currentTarget }) => onMenu(/** @type {HTMLElement} */ (currentTarget)) }),
  ];
}

/** @param {{app: App}} props */
function SearchBox({ app }) {
  const { query } = app.search.found.value;
  return h('div', { class: 'search', role: 'search' },
    h(Icon, { name: 'search' }),
    h('input', {
      type: 'search', value: query, placeholder: TEXT.searchHint, 'aria-label': TEXT.search, autocomplete: 'off', spellcheck: false, dir: 'auto', 'data-testid': 'search',
      onInput: (/** @type {{currentTarget: HTMLInputElement}} */ { currentTarget }) => app.search.look(currentTarget.value),
      onKeyDown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === 'Enter' && !event.isComposing) app.search.entered.value = true;
        if (event.key !== 'Escape' || !query) return;
        event.stopPropagation(); // more keys: views/search_results.js
        app.search.look('');
      },
    }),
    query ? h(IconButton, { icon: 'close', label: TEXT.searchClear, testid: 'search-clear', onClick: () => app.search.look('') }) : null);
}
