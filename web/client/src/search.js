// Search over all threads while the words are being written. Effects.

import { signal } from '@preact/signals';

import { ApiError } from './api.js';

/** @import {Api} from './api.js' */
/** @import {Hit} from './types.js' */

/** So long nothing is typed before the server is asked. */
const PAUSE_MS = 180;

/**
 * @typedef {object} Search
 * @property {string} query
 * @property {readonly Hit[]} hits of the last query that was answered
 * @property {'idle'|'asking'|'done'|'failed'} state
 */

/** @param {Api} api */
export function createSearch(api) {
  const found = signal(/** @type {Search} */ ({ query: '', hits: [], state: 'idle' }));
  /** The first hit is to be opened, when there is one; cleared when it is, and by another query. */
  const entered = signal(false);
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  let timer;
  let request = new AbortController(); // aborted by the next query

  async function ask() {
    const { query } = found.value;
    const { signal: abort } = request;
    try {
      const { hits } = await api.search(query, abort);
      if (!abort.aborted) found.value = { query, hits, state: 'done' };
    } catch (error) {
      if (abort.aborted) return;
      if (!(error instanceof ApiError)) reportError(error);
      found.value = { query, hits: [], state: 'failed' };
    }
  }

  return {
    found, entered,

    /** @param {string} query */
    look(query) {
      clearTimeout(timer);
      request.abort();
      request = new AbortController();
      entered.value = false;
      const blank = !query.trim();
      found.value = { query, hits: blank ? [] : found.value.hits, state: blank ? 'idle' : 'asking' };
      if (!blank) timer = setTimeout(ask, PAUSE_MS);
    },
  };
}
