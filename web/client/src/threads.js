// The list of threads. Effects.

import { signal } from '@preact/signals';

/** @import {Api} from './api.js' */
/** @import {Change} from './feed.js' */
/** @import {Retrier} from './retry.js' */
/** @import {ThreadInfo, ThreadPage} from './types.js' */

/** @typedef {{threads: readonly ThreadInfo[], next: string|null, loaded: boolean}} ThreadList */
/** @typedef {ReturnType<typeof createThreadList>} Threads */

/** Changes within this time are asked for together. */
const JOIN_MS = 200;

/** @param {Api} api @param {Retrier} retrier */
export function createThreadList(api, retrier) {
  const list = signal(/** @type {ThreadList} */ ({ threads: [], next: null, loaded: false }));
  let loading = false; // one request at a time; set while it is under way
  let again = false; // something changed meanwhile; cleared by the request that will see it
  let loadingMore = false; // a page of older ones is under way
  const { signal: forever } = new AbortController(); // lives as long as the page

  async function refresh() {
    again = true;
    if (loading) return;
    loading = true;
    try {
      while (again) {
        again = false;
        const page = await retrier.until(() => api.threads(), forever);
        list.value = firstPage(list.value, page); // the list of now: older pages may have come meanwhile
      }
    } finally {
      loading = false;
    }
  }

  let stale = false; // a hidden page has not asked for what changed; cleared when it does
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  let soon;

  return {
    list,
    /**
     * The server says that a thread changed. A burst of changes is one request; a hidden page asks when it is seen.
     * @param {Change} change
     */
    noticed(change) {
      if (!change.reset) {
        const known = list.value.threads.find(({ id }) => id === change.thread);
        if (change.deleted) this.drop(change.thread);
        else if (known && known.version >= change.version) return;
        else if (known) this.replace(change.thread, { state: change.state });
      }
      stale = true;
      if (document.hidden) return;
      clearTimeout(soon);
      soon = setTimeout(() => this.catchUp(), JOIN_MS);
    },
    /** Ask for what was put off. */
    catchUp() {
      if (stale) this.refresh();
    },
    /** What a person changed shows at once; the next refresh has the server's word. @param {string} id @param {Partial<ThreadInfo>} changes */
    replace(id, changes) {
      const { threads } = list.value;
      list.value = { ...list.value, threads: threads.map((thread) => (thread.id === id ? { ...thread, ...changes } : thread)) };
    },
    /** @param {string} id */
    drop(id) {
      list.value = { ...list.value, threads: list.value.threads.filter((thread) => thread.id !== id) };
    },
    /** Joined: however often it is asked for, one request is under way. */
    refresh() {
      stale = false;
      clearTimeout(soon);
      void refresh().catch(reportError);
    },
    /** One page of older threads; joined while one is under way. */
    async more() {
      if (loadingMore) return;
      loadingMore = true;
      try {
        for (let { next } = list.value; next; { next } = list.value) {
          const page = await retrier.until(() => api.threads(/** @type {string} */ (next)), forever);
          if (list.value.next !== next) continue; // a refresh begins anew further up: ask from there
          list.value = nextPage(list.value, page);
          return;
        }
      } finally {
        loadingMore = false;
      }
    },
  };
}

/**
 * The newest page replaces what it covers; older pages stay, if nothing is missing between the two.
 * @param {ThreadList} list @param {ThreadPage} page @returns {ThreadList}
 */
export function firstPage(list, { threads, next }) {
  const last = threads.at(-1);
  if (!next || !last || !list.threads.some(({ id }) => id === last.id)) return { threads, next, loaded: true };
  const fresh = new Set(threads.map(({ id }) => id));
  const older = list.threads.filter(({ id, pinned, updatedAt }) => !pinned && updatedAt <= last.updatedAt && !fresh.has(id));
  return older.length ? { threads: [...threads, ...older], next: list.next, loaded: true } : { threads, next, loaded: true };
}

/** @param {ThreadList} list @param {ThreadPage} page @returns {ThreadList} */
export function nextPage(list, { threads, next }) {
  const known = new Set(list.threads.map(({ id }) => id));
  return { threads: [...list.threads, ...threads.filter(({ id }) => !known.has(id))], next, loaded: true };
}
