// Reads the feed of changed threads (web/PROTOCOL.md, `GET /api/feed`) until it is told to stop. Effects.

import { createParser } from 'eventsource-parser';

import { ApiError } from './api.js';
import { backoffMs } from './backoff.js';
import { LIVENESS_MS } from './link_transitions.js';

/** @import {Api} from './api.js' */

/** @typedef {{reset?: undefined, thread: string, version: number, state: 'idle'|'queued'|'running', deleted: boolean}} ThreadNews */

/** `reset`: something was missed, everything is to be loaded again. @typedef {{reset: true} | ThreadNews} Change */

/**
 * @typedef {object} FeedHooks
 * @property {(id: string, change: Change) => void} news in order; after a lost connection nothing is left out
 * @property {() => void} heard bytes came: the connection lives
 */

/**
 * @param {Api} api
 * @param {string|null} after id of the last change that is known; null: none
 * @param {FeedHooks} hooks
 * @param {AbortSignal} signal ends it
 * @returns {Promise<void>} when it has ended
 */
export async function readFeed(api, after, hooks, signal) {
  let last = after;
  for (let failures = 0; !signal.aborted; ) {
    try {
      await once(api, last, signal, {
        heard() {
          failures = 0;
          hooks.heard();
        },
        news(id, change) {
          last = id;
          hooks.news(id, change);
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) reportError(error);
    }
    failures += 1;
    await pause(backoffMs(failures, Math.random()), signal);
  }
}

/**
 * One connection, until it ends or falls silent. Raises ApiError.
 * @param {Api} api @param {string|null} after @param {AbortSignal} outer @param {FeedHooks} hooks
 */
async function once(api, after, outer, hooks) {
  const request = new AbortController();
  const forward = () => request.abort(outer.reason);
  outer.addEventListener('abort', forward);
  const silent = () => request.abort(new ApiError(0, 'SILENT', ''));
  let timer = setTimeout(silent, LIVENESS_MS);
  try {
    const response = await api.feed(after, request.signal);
    const parser = createParser({
      onEvent({ id, data }) {
        const change = decode(data);
        if (id && change) hooks.news(id, change);
      },
    });
    const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw new ApiError(0, 'NETWORK', String(error));
      });
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(silent, LIVENESS_MS);
      hooks.heard();
      parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', forward);
    request.abort(new ApiError(0, 'ENDED', ''));
  }
}

/** @param {string} data @returns {Change|null} null: unreadable */
function decode(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

/** @param {number} ms @param {AbortSignal} signal ends it early @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    }
    signal.addEventListener('abort', end);
  });
}
