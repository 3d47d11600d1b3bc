// How the connection of a thread goes from one phase to the next (link_state.js: when it does). Pure.

import { backoffMs } from './backoff.js';

/** @import {LinkAction, LinkState, Phase} from './link_types.js' */

/** The server's heartbeat (web/PROTOCOL.md, "Frames"). */
export const HEARTBEAT_MS = 5_000;

/** No byte for so long: the connection is dead. Two beats may be late or one lost; at least 2.4 x beat. */
export const LIVENESS_MS = 12_000;

/** No response headers for so long: try again. Streams answer at once. */
export const ANSWER_LIMIT_MS = 12_000;

/** A hidden page gives its connection back after this: browsers have six for all tabs of a server. Taking it
 * up again costs one request. */
export const HIDDEN_GRACE_MS = 1_000;

/** @typedef {{state: LinkState, actions: LinkAction[]}} Step */

/** @type {LinkAction[]} */
const NOTHING = [];

/**
 * The moment at which something must be done though nothing happens.
 * @param {LinkState} state
 * @returns {number|null} ms, null where there is none
 */
export function deadline(state) {
  switch (state.phase) {
    case 'loading':
    case 'connecting': return state.since + ANSWER_LIMIT_MS;
    case 'open': return Math.min(state.heardAt + LIVENESS_MS, hiddenUntil(state));
    case 'waiting': return state.until;
    default: return null;
  }
}

/** @param {LinkState} state @param {LinkAction[]} [actions] @returns {Step} */
export function stay(state, actions = NOTHING) {
  return { state, actions };
}

/** A request is under way. @param {LinkState} state */
export function busy({ phase }) {
  return phase === 'loading' || phase === 'connecting' || phase === 'open';
}

/** @param {LinkState} state */
export function hiddenUntil({ hiddenAt, since }) {
  return hiddenAt === null ? Infinity : Math.max(hiddenAt, since) + HIDDEN_GRACE_MS;
}

/**
 * The one way into a phase: what was under way is aborted and the timer is replaced.
 * @param {LinkState} state @param {Phase} phase @param {number} now @param {LinkAction[]} [last] @returns {Step}
 */
export function enter(state, phase, now, last = NOTHING) {
  const next = { ...state, phase, since: now, heardAt: now };
  /** @type {LinkAction[]} */
  const actions = [];
  if (busy(state) && phase !== 'open') {
    actions.push({ type: 'abort', generation: state.generation });
    next.generation += 1; // what it still reports is late
  }
  actions.push({ type: 'timer', at: deadline(next) }, ...last);
  return { state: next, actions };
}

/** @param {LinkState} state @param {'connect'|'load'} what @param {number} now @returns {Step} */
export function begin(state, what, now) {
  const generation = state.generation + 2; // one may be spent on the abort
  const { state: next, actions } = enter(
    { ...state, next: what, frames: 0 }, what === 'load' ? 'loading' : 'connecting', now);
  /** @type {LinkAction} */
  const start = what === 'load'
    ? { type: 'load', generation }
    : { type: 'connect', generation, stream: /** @type {string} */ (state.stream), seq: state.seq, mode: state.mode };
  return { state: { ...next, generation }, actions: [...actions, start] };
}

/**
 * After a failure: wait and do `state.next` again. A hidden page waits for its person instead.
 * @param {LinkState} state @param {number} now @param {number} waitMs @returns {Step}
 */
export function wait(state, now, waitMs) {
  if (state.hiddenAt !== null) return enter(state, 'paused', now);
  return enter({ ...state, until: now + waitMs }, 'waiting', now);
}

/** @param {LinkState} state @param {{now: number, random: number}} at @param {number} [leastMs] @returns {Step} */
export function drop(state, { now, random }, leastMs = 0) {
  const healthy = state.phase === 'open' && now - state.since >= HEARTBEAT_MS;
  const attempt = healthy ? 1 : state.attempt + 1;
  return wait({ ...state, attempt }, now, backoffMs(attempt, random, leastMs));
}

/** What we hold does not join what came: load the thread. @param {LinkState} state @param {{now: number, random: number}} at @returns {Step} */
export function reload(state, { now, random }) {
  const attempt = state.attempt + 1;
  const next = { ...state, attempt, next: /** @type {const} */ ('load') };
  return attempt === 1 ? begin(next, 'load', now) : wait(next, now, backoffMs(attempt, random));
}
