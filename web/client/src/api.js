// Requests to the server. Effects. Each request is built by the one function `request`, so that all carry
// the same credentials and go below the same base path.

import { formatCursor } from './cursor.js';

/** @import {Accepted, Cursor, Hits, Models, Snapshot, ThreadChange, ThreadInfo, ThreadPage} from './types.js' */
/** @import {Outgoing} from './thread_state.js' */

/** No answer to an ordinary request for so long: its fate is unknown, and it is made again. */
const ANSWER_LIMIT_MS = 15_000;

/** `status` 0: there was no answer (`NETWORK`, `TIMEOUT`), or it was not ours (`NOT_OURS`). */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {number} [retryAfterMs] */
  constructor(status, code, message, retryAfterMs = 0) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }

  /** The caller has to sign in; the same request succeeds then. */
  get signedOut() {
    return this.status === 401;
  }

  /** The same request may succeed later; for idempotent ones. */
  get passing() {
    return this.status === 0 || this.status === 408 || this.status === 425 || this.status === 429 || this.status >= 500;
  }
}

/** @typedef {ReturnType<typeof createApi>} Api */

/**
 * @param {object} options
 * @param {string} options.base address the paths of web/PROTOCOL.md are relative to; ends with "/"
 * @param {typeof globalThis.fetch} [options.fetch]
 * @param {() => void} [options.signedOut] told when an answer says that the caller is not known (any more)
 */
export function createApi({ base, fetch = globalThis.fetch.bind(globalThis), signedOut }) {
  /**
   * @param {string} method @param {string} path
   * @param {{body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
   * @returns {Promise<Response>} an answer that succeeded; raises ApiError for every other, and what
   *   `signal` was aborted with
   */
  async function request(method, path, { body, headers = {}, signal } = {}) {
    /** @type {RequestInit} */
    const init = { method, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error',
      headers: { Accept: 'application/json', ...headers } };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { ...init.headers, 'Content-Type': 'application/json' };
    }
    let response;
    try {
      response = await fetch(new URL(path, base), init);
    } catch (error) {
      signal?.throwIfAborted();
      throw new ApiError(0, 'NETWORK', String(error));
    }
    if (response.status === 401) signedOut?.();
    if (!response.ok) throw await refusal(response);
    return response;
  }

  /**
   * A request with a JSON answer (null for 204) and a limit.
   * @param {string} method @param {string} path @param {{body?: unknown, signal?: AbortSignal}} [options]
   */
  async function json(method, path, { body, signal } = {}) {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(new ApiError(0, 'TIMEOUT', '')), ANSWER_LIMIT_MS);
    const forward = () => limit.abort(signal?.reason);
    signal?.addEventListener('abort', forward);
    if (signal?.aborted) forward();
    try {
      const response = await request(method, path, { body, signal: limit.signal });
      return response.status === 204 ? null : await answer(response, limit.signal);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', forward);
    }
  }

  return {
    /** @param {string} thread @param {AbortSignal} [signal] @returns {Promise<Snapshot>} */
    thread: (thread, signal) => json('GET', `api/threads/${thread}`, { signal }),

    /**
     * Newest change first.
     * @param {string|null} [after] the `next` of an earlier page
     * @param {AbortSignal} [signal]
     * @returns {Promise<ThreadPage>}
     */
    threads: (after, signal) =>
      json('GET', after ? `api/threads?after=${encodeURIComponent(after)}` : 'api/threads', { signal }),

    /**
     * Idempotent: the same id never starts a second turn.
     * @param {string} thread
     * @param {Pick<Outgoing, 'id'|'question'|'text'|'files'|'during'|'parent'|'replaces'|'model'|'instructions'>} outgoing
     * @param {AbortSignal} [signal]
     * @returns {Promise<Accepted>}
     */
    send: (thread, { id, question, text, files = [], during, parent, replaces, model, instructions }, signal) =>
      question
        ? json('POST', `api/threads/${thread}/messages/${question}/answers`, { body: { id, model, during }, signal })
        : json('POST', `api/threads/${thread}/messages`, {
          // What is undefined is left out.
          body: { id, parts: [...(text ? [{ type: 'text', text }] : []), ...files.map(({ type, attachment }) => ({ type, attachment }))],
            during, parent, replaces, model, instructions }, signal,
        }),

    /** @param {string} thread @param {ThreadChange} change @param {AbortSignal} [signal] @returns {Promise<ThreadInfo>} */
    change: (thread, change, signal) => json('PATCH', `api/threads/${thread}`, { body: change, signal }),

    /** Idempotent. @param {string} thread @param {AbortSignal} [signal] */
    remove: (thread, signal) => json('DELETE', `api/threads/${thread}`, { signal }),

    /** @param {string} query @param {AbortSignal} [signal] @returns {Promise<Hits>} */
    search: (query, signal) => json('GET', `api/search?q=${encodeURIComponent(query)}`, { signal }),

    /** @param {AbortSignal} [signal] @returns {Promise<Models>} */
    models: (signal) => json('GET', 'api/models', { signal }),

    /** Address of an attached file. @param {string} attachment */
    attachment: (attachment) => new URL(`api/attachments/${attachment}`, base).href,

    /** Address of a thread as a file. @param {string} thread @param {'markdown'|'json'} format */
    exported: (thread, format) => new URL(`api/threads/${thread}/export?format=${format}`, base).href,

    /** Idempotent. @param {string} stream @param {AbortSignal} [signal] */
    stop: (stream, signal) => json('DELETE', `api/streams/${stream}`, { signal }),

    /** Idempotent; also before the message arrived. @param {string} thread @param {string} message @param {AbortSignal} [signal] */
    stopMessage: (thread, message, signal) => json('DELETE', `api/threads/${thread}/turns/${message}`, { signal }),

    /** @param {string} token the access token, or the link that holds it */
    signIn: (token) => json('POST', 'api/sign-in', { body: { token } }),

    /**
     * What changed after an id of the feed, as server-sent events; null: from now on.
     * @param {string|null} after @param {AbortSignal} signal
     */
    feed: (after, signal) =>
      request('GET', 'api/feed', {
        headers: { Accept: 'text/event-stream', ...(after ? { 'Last-Event-ID': after } : {}) }, signal,
      }),

    /**
     * The same as `follow`, asked for piece by piece: what there is after a cursor, at the latest after a while.
     * @param {Cursor} cursor @param {number} waitMs @param {AbortSignal} signal
     * @returns {Promise<{events: {id: string|null, event: import('./types.js').Event}[], cursor: string, ended: boolean}>}
     */
    async poll(cursor, waitMs, signal) {
      const query = `after=${encodeURIComponent(formatCursor(cursor))}&wait=${waitMs / 1000}`;
      return answer(await request('GET', `api/streams/${cursor.stream}?${query}`, { signal }), signal);
    },

    /**
     * The stream after a cursor, as server-sent events. The caller limits the wait and reads the body.
     * @param {Cursor} cursor @param {AbortSignal} signal
     */
    follow: (cursor, signal) =>
      request('GET', `api/streams/${cursor.stream}`, {
        headers: { Accept: 'text/event-stream', 'Last-Event-ID': formatCursor(cursor) }, signal,
      }),
  };
}

/** @param {Response} response @param {AbortSignal} signal */
async function answer(response, signal) {
  let body;
  try {
    body = await response.text();
  } catch (error) {
    signal.throwIfAborted();
    throw new ApiError(0, 'NETWORK', String(error)); // cut in the middle
  }
  try {
    return JSON.parse(body);
  } catch {
    throw new ApiError(0, 'NOT_OURS', ''); // a proxy's page
  }
}

/** @param {Response} response @returns {Promise<ApiError>} */
async function refusal(response) {
  const retryAfterMs = 1_000 * (Number(response.headers.get('Retry-After')) || 0);
  const body = await response.json().catch(() => ({})); // not every answer on the way is ours
  return new ApiError(response.status, String(body?.code ?? 'HTTP'), String(body?.message ?? ''), retryAfterMs);
}
