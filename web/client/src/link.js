// Keeps the connection of one thread: does what link_state.js decides and tells it what happens. Effects.

import { createParser } from 'eventsource-parser';

import { ApiError } from './api.js';
import { nextTask } from './frames.js';
import { parseCursor } from './cursor.js';
import { INITIAL, step } from './link_state.js';
import { LIVENESS_MS } from './link_transitions.js';

/** @import {Api} from './api.js' */
/** @import {LinkAction, LinkEvent, LinkState, Wake} from './link_types.js' */
/** @import {Cursor, Event} from './types.js' */

/** The server answers a poll at the latest after this: well within what counts as alive. */
const POLL_WAIT_MS = LIVENESS_MS * 0.6;

/** So long reading goes on at a stretch; the page has other things to do. */
const READING_MS = 12;

/** So much is read between two looks at the clock; what waited for long comes in one piece. */
const PIECE_CHARS = 16_384;

/**
 * What happened, without the time and the dice.
 * @typedef {LinkEvent extends infer E ? E extends LinkEvent ? Omit<E, 'now'|'random'> : never : never} Happening
 */

/**
 * @typedef {object} Hooks
 * @property {(event: Event, cursor: Cursor|null) => void} apply exactly once for each event, in order
 * @property {(signal: AbortSignal) => Promise<Cursor|null>} load loads the thread and says what to follow;
 *   raises ApiError
 * @property {(state: LinkState) => void} changed
 */

/** @typedef {ReturnType<typeof createLink>} Link */

/**
 * The one owner of a thread's connection. Whoever creates it calls `release` at the end; afterwards it
 * holds no connection and no timer, and may be used again.
 * @param {Api} api
 * @param {Hooks} hooks
 */
export function createLink(api, hooks) {
  /** @type {LinkState} */
  let state = INITIAL;
  /** @type {AbortController|null} of the request of this generation */
  let request = null;
  /** @type {ReturnType<typeof setTimeout>|undefined} the one timer */
  let timer;
  /** @type {Happening[]} happenings while one is being dealt with */
  const queue = [];
  let dealing = false; // set while the queue is emptied, cleared after

  /** @param {Happening} happening */
  function tell(happening) {
    queue.push(happening);
    if (dealing) return;
    dealing = true;
    try {
      for (let next = queue.shift(); next; next = queue.shift()) deal(next);
    } finally {
      dealing = false;
      queue.length = 0;
    }
  }

  /** @param {Happening} happening */
  function deal(happening) {
    const before = state;
    const result = step(state, /** @type {LinkEvent} */ ({ ...happening, now: Date.now(), random: Math.random() }));
    state = result.state;
    result.actions.forEach(act);
    if (state !== before) hooks.changed(state);
  }

  /** @param {LinkAction} action */
  function act(action) {
    switch (action.type) {
      case 'abort':
        request?.abort();
        request = null;
        break;
      case 'timer':
        clearTimeout(timer);
        if (action.at !== null) timer = setTimeout(tell, Math.max(0, action.at - Date.now()), { type: 'tick' });
        break;
      case 'apply':
        hooks.apply(action.event, action.cursor);
        break;
      case 'connect':
        request = new AbortController();
        void (action.mode === 'poll' ? poll : follow)(action.generation, action, request.signal);
        break;
      case 'load':
        request = new AbortController();
        void load(action.generation, request.signal);
    }
  }

  /** @param {number} generation @param {Cursor} cursor @param {AbortSignal} signal */
  async function follow(generation, { stream, seq }, signal) {
    try {
      const response = await api.follow({ stream, seq }, signal);
      if (response.status === 204) {
        tell({ type: 'nothing', generation });
        return;
      }
      const type = response.headers.get('Content-Type') ?? '';
      if (!type.startsWith('text/event-stream')) throw new ApiError(0, 'NOT_OURS', '');
      tell({ type: 'opened', generation });
      if (response.body) await read(response.body, generation, signal);
      tell({ type: 'closed', generation });
    } catch (error) {
      fail(generation, error, signal);
    }
  }

  /** Piece by piece: each answer comes whole, at the latest after POLL_WAIT_MS. @param {number} generation @param {Cursor} cursor @param {AbortSignal} signal */
  async function poll(generation, cursor, signal) {
    let at = cursor;
    try {
      for (let waitMs = 0; ; waitMs = POLL_WAIT_MS) {
        const answer = await api.poll(at, waitMs, signal);
        tell({ type: waitMs ? 'bytes' : 'opened', generation });
        for (const { id, event } of answer.events) tell({ type: 'frame', generation, id, event });
        if (signal.aborted) return;
        if (answer.ended) {
          tell({ type: 'nothing', generation });
          return;
        }
        at = parseCursor(answer.cursor) ?? at;
      }
    } catch (error) {
      fail(generation, error, signal);
    }
  }

  /**
   * Frames are handed on as they are complete; half a frame at the end is dropped, as the specification
   * of server-sent events has it (WHATWG HTML section 9.2.6).
   * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body @param {number} generation @param {AbortSignal} signal
   */
  async function read(body, generation, signal) {
    const parser = createParser({
      onEvent: ({ id, data }) => tell({ type: 'frame', generation, id: id ?? null, event: decode(data) }),
    });
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let busy = 0; // ms since others had their turn
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw new ApiError(0, 'NETWORK', String(error));
      });
      if (done || signal.aborted) return;
      tell({ type: 'bytes', generation });
      const text = decoder.decode(value, { stream: true });
      for (let at = 0; at < text.length && !signal.aborted; at += PIECE_CHARS) {
        const begun = performance.now();
        parser.feed(text.slice(at, at + PIECE_CHARS));
        busy += performance.now() - begun;
        if (busy < READING_MS) continue;
        busy = 0;
        await nextTask(); // what is there already is read without a pause otherwise
      }
    }
  }

  /** @param {number} generation @param {AbortSignal} signal */
  async function load(generation, signal) {
    try {
      tell({ type: 'loaded', generation, target: await hooks.load(signal) });
    } catch (error) {
      fail(generation, error, signal);
    }
  }

  /** @param {number} generation @param {unknown} error @param {AbortSignal} signal */
  function fail(generation, error, signal) {
    if (signal.aborted) return; // by us: whoever aborted knows
    if (error instanceof ApiError && error.status !== 0) {
      const { status, code, retryAfterMs } = error;
      tell({ type: 'refused', generation, status, code, retryAfterMs });
      return;
    }
    if (!(error instanceof ApiError)) reportError(error); // a fault of ours: said, and tried again
    tell({ type: 'failed', generation, code: error instanceof ApiError ? error.code : 'INTERNAL' });
  }

  return {
    load: () => tell({ type: 'load' }),
    /** @param {Cursor} target */
    follow: (target) => tell({ type: 'follow', target }),
    /** @param {Wake} reason */
    wake: (reason) => tell({ type: 'wake', reason }),
    hidden: () => tell({ type: 'hidden' }),
    freeze: () => tell({ type: 'freeze' }),
    release: () => tell({ type: 'release' }),
  };
}

/** @param {string} data @returns {Event|null} null: unreadable */
function decode(data) {
  try {
    const event = JSON.parse(data);
    return typeof event?.type === 'string' ? event : null;
  } catch {
    return null;
  }
}
