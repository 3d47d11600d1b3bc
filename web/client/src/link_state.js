// The connection of one thread as a state machine. Pure: `step(state, event)` returns the next state and
// the actions to do; link.js does them.
//
//          load                    loaded: nothing runs
//   idle ────────▶ loading ─────────────────────────────▶ idle
//    ▲               │  ▲ loaded: a turn runs
//    │ outcome       ▼  │ hole, 404, unreadable
//    └──── open ◀── connecting ◀──────────┐
//            │ drop      │ drop           │ time, wake
//            └───────────┴──▶ waiting ────┘
//
// and aside: `paused` (hidden or frozen: no connection, no timer, until a wake signal), `lost` (the
// stream is gone though its turn is said to run), `blocked` (not allowed). Those three wait for a person.
//
// - One owner, one generation number, one timer. Each transition replaces the timer; what an older
//   generation reports is dropped.
// - The cursor is the last *applied* event. A step that applies an event moves it, nothing else does.
// - A stream that ends without its outcome was dropped, however cleanly it closed.
// - Liveness is judged by bytes. They only move `heardAt`; the timer finds out when it fires, so a
//   busy stream sets no timers.
// - Signals that the page is awake again are joined into one probe: it leaves the state in which a
//   signal starts one.

import { emptyBackoffMs } from './backoff.js';
import { parseCursor } from './cursor.js';
import { HEARTBEAT_MS, begin, busy, deadline, drop, enter, hiddenUntil, reload, stay, wait } from './link_transitions.js';

/** @import {Step} from './link_transitions.js' */
/** @import {LinkEvent, LinkState, Wake} from './link_types.js' */
/** @import {Cursor, Event} from './types.js' */

/** Wake signals within this time are the same waking. */
const WAKE_JOIN_MS = 1_000;

/** A response that ends so soon, without one event, was empty. */
const EMPTY_WITHIN_MS = 1_000;

/** So many connections in a row that fell silent, though the server answers otherwise: streams are held
 * back on the way (a proxy that buffers), and the log is asked for piece by piece. */
const MUTE_LIMIT = 2;

/** Of so many empty answers one is followed by loading the thread, to see whether anything runs. */
const LOAD_EACH = 5;

/** Signals after which a connection may be dead though it looks young: a fetch that was frozen never
 * says another word, and a new network keeps no old connection. */
const HARD_WAKES = new Set(['resume', 'pageshow', 'online']);

/** Signals after which what is on the way may be another. */
const NEW_WAYS = new Set(['online', 'manual']);

/** Signals that say the person can see the page. */
const SEEN_WAKES = new Set(['visible', 'focus', 'pageshow', 'manual']);

/** @type {LinkState} */
export const INITIAL = Object.freeze({
  phase: 'idle', generation: 0, stream: null, seq: 0, past: [], next: 'connect', attempt: 0, empties: 0,
  frames: 0, mode: 'stream', mute: 0, since: 0, heardAt: 0, until: 0, hiddenAt: null, missing: null, error: null,
});

/**
 * @param {LinkState} state
 * @param {LinkEvent} event
 * @returns {Step} the same state where the event means nothing
 */
export function step(state, event) {
  if ('generation' in event && event.generation !== state.generation) return stay(state); // late
  switch (event.type) {
    case 'load': return begin({ ...state, stream: null, seq: 0, past: [], attempt: 0, empties: 0 }, 'load', event.now);
    case 'loaded': return onLoaded(state, event);
    case 'follow': return onFollow(state, event);
    case 'opened': return state.phase === 'connecting' ? enter(state, 'open', event.now) : stay(state);
    case 'bytes': return state.phase === 'open' ? onBytes(state, event) : stay(state);
    case 'frame': return state.phase === 'open' ? onFrame(state, event) : stay(state);
    case 'closed': return busy(state) ? onClosed(state, event) : stay(state);
    case 'nothing': return busy(state) ? onNothing(state, event) : stay(state);
    case 'failed': return busy(state) ? drop({ ...state, mute: 0, error: event.code }, event) : stay(state);
    case 'refused': return busy(state) ? onRefused(state, event) : stay(state);
    case 'tick': return onTick(state, event);
    case 'wake': return onWake(state, event);
    case 'hidden': return onHidden(state, event);
    case 'freeze': return onFreeze(state, event);
    case 'release': return enter({ ...state, stream: null, seq: 0, past: [] }, 'idle', event.now);
  }
}

/**
 * What a person should be told.
 * @param {LinkState} state
 * @returns {'quiet'|'loading'|'reconnecting'|'lost'|'blocked'}
 */
export function shown({ phase, attempt, next }) {
  if (phase === 'lost' || phase === 'blocked') return phase;
  if (phase === 'waiting' || (attempt > 0 && phase !== 'open' && phase !== 'idle' && phase !== 'paused')) {
    return 'reconnecting';
  }
  return phase === 'loading' && next === 'load' ? 'loading' : 'quiet';
}

// events

/** @param {LinkState} state @param {LinkEvent & {type: 'loaded'}} event @returns {Step} */
function onLoaded(state, { target, now }) {
  if (state.phase !== 'loading') return stay(state);
  if (!target) return enter({ ...state, stream: null, seq: 0, past: [], attempt: 0, empties: 0, error: null }, 'idle', now);
  const gone = target.stream === state.missing;
  const next = aim(state, target);
  return gone ? enter(next, 'lost', now) : begin(next, 'connect', now);
}

/** @param {LinkState} state @param {LinkEvent & {type: 'follow'}} event @returns {Step} */
function onFollow(state, { target, now }) {
  // What is being loaded tells what to follow, with what is known by then.
  if (state.phase === 'loading' || (state.phase === 'waiting' && state.next === 'load')) return stay(state);
  if (state.stream === target.stream && state.phase !== 'idle') return stay(aim(state, target));
  return begin({ ...aim(state, target), attempt: 0, empties: 0 }, 'connect', now);
}

/** Never moves back, never carries a position to another stream. @param {LinkState} state @param {Cursor} target @returns {LinkState} */
function aim(state, { stream, seq }) {
  if (stream === state.stream) return { ...state, seq: Math.max(seq, state.seq) };
  return { ...state, stream, seq, past: [], missing: null };
}

/** @param {LinkState} state @param {LinkEvent & {type: 'frame'}} event @returns {Step} */
function onFrame(state, { id, event, now, random }) {
  if (!event) return reload(state, { now, random });
  if (event.code === 'STREAM_RESUME_GAP') return reload(state, { now, random });
  if (id === null) {
    // The log itself cannot be written: the outcome comes without an id (web/PROTOCOL.md, "The store failed").
    return event.type === 'outcome' ? finish(state, event, null, now) : stay(state);
  }
  const cursor = parseCursor(id);
  if (!cursor) return reload(state, { now, random });
  const joined = join(state, cursor, event);
  if (joined === 'hole') return reload(state, { now, random });
  if (joined === 'known') return stay({ ...state, frames: state.frames + 1 });
  return apply({ ...state, ...joined }, event, cursor, now);
}

/**
 * How an event joins what was applied.
 * @param {LinkState} state @param {Cursor} cursor @param {Event} event
 * @returns {'hole'|'known'|{stream: string, past: readonly string[]}}
 */
function join(state, cursor, event) {
  if (cursor.stream === state.stream) {
    if (cursor.seq <= state.seq) return 'known';
    return cursor.seq === state.seq + 1 ? { stream: state.stream, past: state.past } : 'hole';
  }
  if (state.past.includes(cursor.stream)) return 'known';
  // A successor may be met without its `superseded`: after a power cut the log ends before our cursor.
  if (cursor.seq !== 1 || event.type !== 'snapshot') return 'hole';
  return { stream: cursor.stream, past: [...state.past, /** @type {string} */ (state.stream)] };
}

/** @param {LinkState} state @param {Event} event @param {Cursor} cursor @param {number} now @returns {Step} */
function apply(state, event, cursor, now) {
  if (event.type === 'outcome') return finish(state, event, cursor, now);
  const next = { ...state, seq: cursor.seq, frames: state.frames + 1, attempt: 0, empties: 0, error: null, missing: null };
  if (event.type === 'superseded') {
    next.past = [...state.past, cursor.stream];
    next.stream = event.stream;
    next.seq = 0;
  }
  return stay(next, [{ type: 'apply', event, cursor }]);
}

/** @param {LinkState} state @param {Event} event @param {Cursor|null} cursor @param {number} now @returns {Step} */
function finish(state, event, cursor, now) {
  const next = { ...state, stream: null, seq: 0, past: [], attempt: 0, empties: 0, error: null, missing: null };
  return enter(next, 'idle', now, [{ type: 'apply', event, cursor }]);
}

/** @param {LinkState} state @param {LinkEvent & {type: 'closed'}} event @returns {Step} */
function onClosed(state, { now, random }) {
  const empty = state.frames === 0 && now - state.since < EMPTY_WITHIN_MS;
  if (!empty) return drop({ ...state, error: 'CLOSED' }, { now, random });
  const empties = state.empties + 1;
  const next = { ...state, empties, attempt: state.attempt + 1, error: 'EMPTY' };
  return wait({ ...next, next: empties % LOAD_EACH === 2 ? 'load' : 'connect' }, now, emptyBackoffMs(empties, random));
}

/** 204: nothing is to come any more. The thread knows better what became of the turn; asked now and then. @param {LinkState} state @param {LinkEvent & {type: 'nothing'}} event @returns {Step} */
function onNothing(state, { now, random }) {
  const empties = state.empties + 1;
  const next = { ...state, empties, attempt: state.attempt + 1, error: 'NOTHING' };
  if (empties === 1) return begin(next, 'load', now);
  return wait({ ...next, next: empties % LOAD_EACH === 0 ? 'load' : 'connect' }, now, emptyBackoffMs(empties, random));
}

/** @param {LinkState} state @param {LinkEvent & {type: 'refused'}} event @returns {Step} */
function onRefused(state, { status, code, retryAfterMs, now, random }) {
  const failed = { ...state, error: code };
  if (status === 401 || status === 403) return enter(failed, 'blocked', now);
  if (state.phase !== 'loading') {
    // Gone (or cut off): the thread says what became of it. Asked once; `onLoaded` stops on the same answer.
    if (status === 404) return begin({ ...failed, missing: state.stream, attempt: state.attempt + 1 }, 'load', now);
    if (status === 400 || status === 410) return reload(failed, { now, random });
  }
  return drop(failed, { now, random }, retryAfterMs);
}

/** @param {LinkState} state @param {LinkEvent & {type: 'tick'}} event @returns {Step} */
function onTick(state, { now, random }) {
  const at = deadline(state);
  if (at === null) return stay(state, [{ type: 'timer', at }]);
  if (now < at) return stay(state, [{ type: 'timer', at }]); // bytes came meanwhile
  if (state.phase === 'waiting') return begin(state, state.next, now);
  if (state.phase === 'open' && now >= hiddenUntil(state)) return enter({ ...state, next: 'connect' }, 'paused', now);
  return onSilence(state, { now, random });
}

/**
 * The first silence is followed by an ordinary request: if that is answered and the next connection is
 * as silent, streams do not get through.
 * @param {LinkState} state @param {{now: number, random: number}} at @returns {Step}
 */
function onSilence(state, at) {
  if (state.phase === 'loading') return drop({ ...state, mute: 0, error: 'SILENT' }, at);
  const mute = state.mute + 1;
  if (mute >= MUTE_LIMIT) return drop({ ...state, mute, mode: 'poll', next: 'connect', error: 'SILENT' }, at);
  return drop({ ...state, mute, next: 'load', error: 'SILENT' }, at);
}

/** @param {LinkState} state @param {{now: number}} at @returns {Step} */
function onBytes(state, { now }) {
  const inTime = now - state.since >= HEARTBEAT_MS && state.mode === 'stream';
  return stay({ ...state, heardAt: now, mute: inTime ? 0 : state.mute });
}

/** @param {LinkState} before @param {LinkEvent & {type: 'wake'}} event @returns {Step} */
function onWake(before, { reason, now, random }) {
  const seen = SEEN_WAKES.has(reason) && before.hiddenAt !== null ? { ...before, hiddenAt: null } : before;
  // A new network may let streams through.
  const state = NEW_WAYS.has(reason) && seen.mode === 'poll' ? { ...seen, mode: /** @type {const} */ ('stream'), mute: 0 } : seen;
  switch (state.phase) {
    case 'waiting':
    case 'paused': return begin(state, state.next, now);
    case 'lost':
    case 'blocked': return begin({ ...state, missing: null }, 'load', now);
    case 'idle': return now - state.since < WAKE_JOIN_MS ? stay(state) : begin(state, 'load', now);
    case 'open': return stale(state, reason, now) ? begin(state, 'connect', now) : rearm(state);
    default: {
      // A first response that is pending is left alone, unless its time is over.
      const at = deadline(state);
      return at !== null && now >= at ? onTick(state, { type: 'tick', now, random }) : stay(state);
    }
  }
}

/** @param {LinkState} state @param {Wake} reason @param {number} now */
function stale(state, reason, now) {
  if (now - state.since < WAKE_JOIN_MS) return false; // this waking's probe already
  return HARD_WAKES.has(reason) || now - state.heardAt > HEARTBEAT_MS + WAKE_JOIN_MS;
}

/** @param {LinkState} state @returns {Step} */
function rearm(state) {
  return stay(state, [{ type: 'timer', at: deadline(state) }]);
}

/** @param {LinkState} state @param {LinkEvent & {type: 'hidden'}} event @returns {Step} */
function onHidden(state, { now }) {
  const next = { ...state, hiddenAt: state.hiddenAt ?? now };
  if (state.phase === 'waiting') return enter(next, 'paused', now);
  return state.phase === 'open' ? rearm(next) : stay(next);
}

/** A frozen page's connection goes deaf: given up at once, taken up again on waking. @param {LinkState} state @param {LinkEvent & {type: 'freeze'}} event @returns {Step} */
function onFreeze(state, { now }) {
  if (!busy(state) && state.phase !== 'waiting') return stay(state);
  return enter(state, 'paused', now);
}
