// What happened where nobody looked: threads that are unread, and the browser's own notes. Effects.

import { computed, effect, signal } from '@preact/signals';

import { addressOf } from './route.js';
import { TEXT } from './text.js';

/** @import {ReadonlySignal} from '@preact/signals' */
/** @import {ThreadNews} from './feed.js' */
/** @import {ThreadList} from './threads.js' */

/** @typedef {ReturnType<typeof createNotices>} Notices */

/**
 * A thread is unread when it is at rest in a version that this browser has not shown.
 * @param {object} options
 * @param {Window & typeof globalThis} options.window
 * @param {string} options.base
 * @param {Storage|null} options.storage
 * @param {ReadonlySignal<ThreadList>} options.list
 * @param {ReadonlySignal<string>} options.currentId
 * @param {(id: string) => void} options.open
 * @param {(id: string) => Promise<string|null>} options.titleOf null: it has none, or cannot be asked for
 */
export function createNotices({ window, base, storage, list, currentId, open, titleOf }) {
  const { document, navigator, Notification } = window;
  const name = `unbroken:${new URL(base).pathname}:seen`;
  const watched = `${name}:now`;
  const { locks } = navigator;
  const seen = signal(read());
  const visible = signal(!document.hidden);
  const permission = signal(Notification ? Notification.permission : 'denied');

  const unread = computed(() => new Set(list.value.threads
    .filter(({ id, version, state }) => state === 'idle' && version > (seen.value[id] ?? version)).map(({ id }) => id)));

  /** @returns {Record<string, number>} shown version by thread */
  function read() {
    try {
      return JSON.parse(storage?.getItem(name) ?? '{}');
    } catch {
      return {};
    }
  }

  /** @param {Record<string, number>} next */
  function keep(next) {
    seen.value = next;
    try {
      storage?.setItem(name, JSON.stringify(next));
    } catch {
      // Full: it holds until the page goes.
    }
  }

  // Threads that are new here count as seen; so does the one that is shown.
  const stopMarking = effect(() => {
    const { threads, loaded } = list.value;
    if (!loaded) return;
    const before = seen.peek();
    const shown = visible.value ? currentId.value : null;
    const fresh = threads.filter(({ id, version }) => before[id] === undefined || (id === shown && before[id] < version));
    if (fresh.length) keep({ ...before, ...Object.fromEntries(fresh.map(({ id, version }) => [id, version])) });
  });

  /** Threads whose turn goes on, as the feed told; a hidden page's list may not have them. @type {Set<string>} */
  const working = new Set();

  /** @type {(() => void)|undefined} lets go of what this tab holds while it is seen; set while it is */
  let unseen;
  /** @type {Promise<unknown>} */
  let letGo = Promise.resolve(); // settled when nothing is held; that takes a moment

  /** Tabs that are seen share a lock: whoever looks at one of them need not be called. */
  function holdWhileSeen() {
    unseen?.();
    unseen = undefined;
    if (document.hidden) return;
    const hidden = new Promise((resolve) => { unseen = () => resolve(undefined); });
    letGo = locks?.request(watched, { mode: 'shared' }, () => hidden).catch(() => undefined) ?? letGo;
  }

  /** @param {string} thread */
  async function show(thread) {
    await letGo; // asked for where the page is hidden
    const { held = [] } = (await locks?.query()) ?? {};
    if (held.some((lock) => lock.name === watched)) return;
    const name = (await titleOf(thread)) || TEXT.untitled;
    const options = { body: TEXT.answerEnded, tag: thread };
    try {
      const note = new Notification(name, options);
      note.onclick = () => {
        window.focus();
        open(thread);
        note.close();
      };
    } catch {
      // Phones let only a service worker show them.
      const shown = navigator.serviceWorker?.ready.then((worker) => worker.showNotification(name, { ...options, data: addressOf(thread, base) }));
      shown?.catch(() => undefined);
    }
  }

  const onVisibility = () => {
    visible.value = !document.hidden;
    holdWhileSeen();
  };
  holdWhileSeen();
  /** Another tab has shown something. @param {StorageEvent} event */
  const onStorage = ({ key }) => {
    if (key === name) seen.value = read();
  };
  document.addEventListener('visibilitychange', onVisibility);
  window.addEventListener('storage', onStorage);

  return {
    unread,
    permission,

    /** The person did it: nothing to be told of. @param {string} id @param {number} version */
    own(id, version) {
      if ((seen.peek()[id] ?? 0) < version) keep({ ...seen.peek(), [id]: version });
    },

    /** A turn has ended: a note, if nobody sees any page of ours. @param {ThreadNews} news @param {boolean} leading one tab tells it */
    tell({ thread, state, deleted }, leading) {
      const listed = list.peek().threads.find(({ id }) => id === thread);
      const worked = working.has(thread) || (listed !== undefined && listed.state !== 'idle');
      if (state !== 'idle' && !deleted) working.add(thread);
      else working.delete(thread);
      if (worked && state === 'idle' && !deleted && leading && document.hidden && permission.peek() === 'granted') show(thread).catch(reportError);
    },

    /** To be called by a click: browsers ask the person then. */
    async ask() {
      if (Notification) permission.value = await Notification.requestPermission();
    },

    close() {
      stopMarking();
      unseen?.();
      document.removeEventListener('visibilitychange', onVisibility);
      window.removeEventListener('storage', onStorage);
    },
  };
}
