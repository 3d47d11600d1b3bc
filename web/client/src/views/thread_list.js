// The list of threads. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { Icon } from './icons.js';

/** @import {App} from '../app.js' */
/** @import {ThreadInfo} from '../types.js' */

/** @param {{app: App, close: () => void}} props */
export function ThreadList({ app, close }) {
  const { threads, next, loaded } = app.threads.list.value;
  const current = app.currentId.value;
  /** @param {string|null} id */
  const open = (id) => (/** @type {MouseEvent} */ event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return; // a new tab or window
    event.preventDefault();
    app.open(id);
    close();
  };
  return h('nav', { class: 'threads', 'aria-label': TEXT.threads, 'data-testid': 'threads' },
    h('a', { class: 'new', href: app.hrefOf(''), onClick: open(null), 'data-testid': 'new-thread' }, h(Icon, { name: 'plus' }), TEXT.newThread),
    h('ul', null, threads.map((thread) => h(Entry, { key: thread.id, thread, current: thread.id === current, href: app.hrefOf(thread.id), onClick: open(thread.id) }))),
    loaded && !threads.length ? h('p', { class: 'empty' }, TEXT.noThreads) : null,
    next ? h('button', { type: 'button', class: 'quiet', onClick: app.threads.more, 'data-testid': 'older' }, TEXT.older) : null);
}

/** @param {{thread: ThreadInfo, current: boolean, href: string, onClick: (event: MouseEvent) => void}} props */
function Entry({ thread: { id, title, state }, current, href, onClick }) {
  return h('li', { 'data-testid': 'thread', 'data-id': id, 'data-state': state },
    h('a', { href, onClick, 'aria-current': current ? 'page' : undefined, dir: 'auto', title: title ?? undefined },
      h('span', { class: 'title' }, title || TEXT.untitled),
      state === 'idle' ? null : h('span', { class: `badge ${state}`, role: 'img', 'aria-label': state === 'running' ? TEXT.working : TEXT.waitingInQueue })));
}
