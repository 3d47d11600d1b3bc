// What is known of one thread. Pure: snapshot and stream joined by the cursor, messages on their way, the
// selected branch. Every answer carries the cursor its fold is exact for, so that a snapshot and the
// stream cannot race (web/PROTOCOL.md, "snapshot"): of two accounts of one stream the longer one holds.
//
// The answer being followed is kept aside as `live`, so that its events cost nothing that grows with
// the conversation; it goes back among the messages when its turn ends or another one is watched.

import { parseCursor } from './cursor.js';
import { EMPTY_FOLD, applyEvent as fold, foldFrom } from './fold.js';

/** @import {Fold} from './fold.js' */
/** @import {Accepted, Cursor, Event, FilePart, Snapshot, ThreadInfo, TurnState, WireMessage} from './types.js' */

/**
 * @typedef {object} Turn
 * @property {TurnState} state
 * @property {string} stream its newest stream
 * @property {string|null} model
 */

/**
 * @typedef {object} Message
 * @property {string} id
 * @property {string|null} parent
 * @property {'user'|'assistant'} role
 * @property {number} createdAt ms since 1970
 * @property {Fold} fold
 * @property {Turn|null} turn of an answer
 * @property {Cursor|null} cursor what `fold` is exact for; null for what has ended and for questions
 * @property {number} accepted the count of acceptances when it became known here by one; 0: by a snapshot
 * @property {boolean} provisional its outcome is not in the log: the next snapshot decides
 */

/**
 * A message, or a wish for another answer, that the server has not accepted yet.
 * @typedef {object} Outgoing
 * @property {string} id
 * @property {string} [question] the message to answer again; then there is no text
 * @property {string} text
 * @property {readonly FilePart[]} [files]
 * @property {string|null} [parent] left out: it follows the selected leaf
 * @property {string} [replaces] the message that waits and that this one takes the place of
 * @property {string} [model] left out: the thread's
 * @property {string} [instructions] left out: the thread's
 * @property {'queue'|'interrupt'} during
 * @property {{code: string, message: string}|null} error why it is not through yet
 * @property {boolean} refused it will not be tried again by itself
 */

/**
 * @typedef {object} ThreadState
 * @property {string} id
 * @property {'new'|'loading'|'ready'|'missing'} phase new: nobody has written to it yet
 * @property {ThreadInfo|null} info
 * @property {string|null} leaf end of the selected branch
 * @property {string|null} choosing a leaf that the person selected and the server does not know of yet
 * @property {readonly Message[]} messages all branches, in the order they were made; `live` is newer
 * @property {Message|null} live the answer that is followed
 * @property {readonly Outgoing[]} outbox
 * @property {readonly string[]} stopping answers whose stop is on its way
 * @property {number} accepts counts acceptances: a snapshot asked for earlier cannot know their messages
 */

/** @param {string} id @param {'new'|'loading'} phase @returns {ThreadState} */
export function emptyThread(id, phase) {
  return {
    id, phase, info: null, leaf: null, choosing: null, messages: [], live: null, outbox: [], stopping: [], accepts: 0,
  };
}

// reading

/** @param {Turn|null} turn */
export function ended(turn) {
  return turn !== null && turn.state !== 'queued' && turn.state !== 'running';
}

/** @param {ThreadState} state @param {string} id @returns {Message|undefined} */
export function find({ live, messages }, id) {
  return live?.id === id ? live : messages.find((message) => message.id === id);
}

/**
 * The answer that ended last since an earlier state. It may have begun since then, too: all of it can fit into a frame.
 * @param {ThreadState} before @param {ThreadState} after @returns {Message|undefined}
 */
export function endedSince(before, after) {
  if (before.messages === after.messages) return undefined;
  const over = new Set(before.messages.filter(({ turn }) => ended(turn)).map(({ id }) => id));
  return after.messages.findLast(({ id, turn }) => ended(turn) && !over.has(id));
}

/**
 * What there is to follow: the running turn, else the first in the queue.
 * @param {ThreadState} state
 * @returns {Message|null}
 */
export function target(state) {
  const open = state.messages
    .map((message) => (message.id === state.live?.id ? state.live : message))
    .filter(({ turn }) => turn && !ended(turn));
  return open.find(({ turn }) => turn?.state === 'running') ?? open[0] ?? null;
}

/**
 * The selected branch, from its beginning.
 * @param {readonly Message[]} messages
 * @param {string|null} leaf
 * @returns {Message[]}
 */
export function branch(messages, leaf) {
  const byId = new Map(messages.map((message) => [message.id, message]));
  /** @type {Message[]} */
  const path = [];
  let at = (leaf && byId.get(leaf)) || messages.at(-1);
  while (at) {
    path.push(at);
    byId.delete(at.id); // a circle would end here
    at = at.parent ? byId.get(at.parent) : undefined;
  }
  return path.reverse();
}

/** The plain text of a message. @param {Fold} fold */
export function plainText({ parts }) {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).filter(Boolean).join('\n\n');
}

// the server's word

/**
 * @param {ThreadState} state
 * @param {Snapshot} snapshot
 * @param {number} acceptsBefore `state.accepts` when the snapshot was asked for
 * @returns {ThreadState}
 */
export function merge(state, { thread, messages }, acceptsBefore) {
  const known = new Map(settled(state).map((message) => [message.id, message]));
  const merged = messages.map((wire) => mergeMessage(known.get(wire.id), wire));
  const listed = new Set(messages.map(({ id }) => id));
  const newer = [...known.values()].filter(({ id, accepted }) => accepted > acceptsBefore && !listed.has(id));
  // The server's answer to a change may have overtaken a snapshot from before it.
  const old = state.info !== null && state.info.version > thread.version;
  return watch({
    ...state,
    phase: 'ready',
    info: old ? state.info : thread,
    leaf: state.choosing ?? (old ? state.leaf : newer.at(-1)?.id ?? thread.leaf ?? null),
    messages: [...merged, ...newer],
    live: null,
    outbox: state.outbox.filter(({ id }) => !listed.has(id)),
    stopping: state.stopping.filter((id) => merged.some((message) => message.id === id && !ended(message.turn))),
  });
}

/** @param {Message|undefined} known @param {WireMessage} wire @returns {Message} */
function mergeMessage(known, wire) {
  if (!known || known.provisional) return fromWire(wire);
  if (known.parent !== wire.parent) return { ...fromWire(wire), ...(lags(known, wire) ? progress(known) : {}) };
  // What has not changed keeps its identity. An outcome is final, and a lagging snapshot rewinds nothing.
  if (wire.role === 'user' && known.accepted === 0) return known;
  if (ended(known.turn) && known.accepted === 0) return known;
  return lags(known, wire) ? { ...known, createdAt: wire.createdAt, accepted: 0 } : fromWire(wire);
}

/** @param {Message} known */
function progress({ fold, turn, cursor }) {
  return { fold, turn, cursor };
}

/** Whether a snapshot says less than is known. @param {Message} known @param {WireMessage} wire */
function lags(known, wire) {
  if (!wire.turn || !known.turn) return false;
  if (ended(known.turn)) return true;
  const cursor = parseCursor(wire.turn.cursor);
  return cursor !== null && cursor.stream === known.cursor?.stream && cursor.seq <= known.cursor.seq;
}

/** @param {WireMessage} wire @returns {Message} */
function fromWire({ id, parent, role, createdAt, parts, turn }) {
  return {
    id, parent, role, createdAt, accepted: 0, provisional: false,
    fold: foldFrom(parts, turn ?? {}),
    turn: turn ? { state: turn.state, stream: turn.stream, model: turn.model ?? null } : null,
    cursor: parseCursor(turn?.cursor),
  };
}

/** The server knows no such thread. @param {ThreadState} state @returns {ThreadState} */
export function missing(state) {
  return { ...emptyThread(state.id, 'new'), phase: state.outbox.length ? 'new' : 'missing', outbox: state.outbox, accepts: state.accepts };
}

// the stream

/** Follow what there is to follow. @param {ThreadState} state @returns {ThreadState} */
export function watch(state) {
  const next = target(state);
  if (next === state.live) return state;
  return { ...state, messages: settled(state), live: next };
}

/** @param {ThreadState} state @returns {readonly Message[]} */
function settled({ messages, live }) {
  return live ? messages.map((message) => (message.id === live.id ? live : message)) : messages;
}

/**
 * An event of the stream that is followed.
 * @param {ThreadState} state
 * @param {Event} event
 * @param {Cursor|null} cursor null: the outcome of a log that cannot be written
 * @returns {ThreadState}
 */
export function applyEvent(state, event, cursor) {
  const { live } = state;
  if (!live?.turn) return state;
  const message = { ...live, fold: fold(live.fold, event), cursor: cursor ?? live.cursor };
  switch (event.type) {
    case 'start':
      message.turn = { ...live.turn, state: 'running', model: event.model };
      return { ...state, live: message };
    case 'snapshot':
      message.turn = { ...live.turn, state: 'running', stream: cursor?.stream ?? live.turn.stream };
      return { ...state, live: message };
    case 'superseded':
      message.turn = { ...live.turn, stream: event.stream };
      message.cursor = { stream: event.stream, seq: 0 };
      return { ...state, live: message };
    case 'outcome':
      return conclude(state, { ...message, provisional: cursor === null, cursor: null }, event.outcome);
    default:
      return { ...state, live: message };
  }
}

/** @param {ThreadState} state @param {Message} message @param {TurnState} outcome @returns {ThreadState} */
function conclude(state, message, outcome) {
  const over = { ...message, turn: { .../** @type {Turn} */ (message.turn), state: outcome } };
  return watch({
    ...state,
    messages: settled({ ...state, live: over }),
    live: null,
    stopping: state.stopping.filter((id) => id !== message.id),
  });
}

// what the person does

/** @param {ThreadState} state @param {Outgoing} outgoing @returns {ThreadState} */
export function enqueue(state, outgoing) {
  return { ...state, outbox: [...state.outbox.filter(({ id }) => id !== outgoing.id), outgoing] };
}

/** @param {ThreadState} state @param {string} id @param {Partial<Outgoing>} changes @returns {ThreadState} */
export function changeOutgoing(state, id, changes) {
  return { ...state, outbox: state.outbox.map((entry) => (entry.id === id ? { ...entry, ...changes } : entry)) };
}

/** @param {ThreadState} state @param {string} id @returns {ThreadState} */
export function withdraw(state, id) {
  return { ...state, outbox: state.outbox.filter((entry) => entry.id !== id) };
}

/**
 * The server has taken what was sent: it and its answer are part of the thread from now on.
 * @param {ThreadState} state @param {Accepted} accepted @param {number} now ms since 1970
 * @param {string} [key] the id of what was sent
 * @returns {ThreadState}
 */
export function accept(state, { message, turn, stream, cursor, state: turnState }, now, key = message) {
  const sent = state.outbox.find(({ id }) => id === key);
  const next = withdraw(state, key);
  if (!sent || find(state, sent.question ? turn : message)) return { ...next, phase: 'ready' };
  const accepts = state.accepts + 1;
  const common = { createdAt: now, accepted: accepts, provisional: false };
  /** @type {Message} */
  const answer = {
    ...common, id: turn, parent: message, role: 'assistant', fold: EMPTY_FOLD,
    turn: { state: turnState, stream, model: null }, cursor: parseCursor(cursor),
  };
  const made = sent.question ? [answer] : [question(state, sent, common), answer];
  return watch({ ...next, phase: 'ready', accepts, leaf: turn, choosing: null, messages: [...next.messages, ...made] });
}

/** @param {ThreadState} state @param {Outgoing} sent @param {Pick<Message, 'createdAt'|'accepted'|'provisional'>} common @returns {Message} */
function question({ leaf }, { id, text, files = [], parent }, common) {
  const said = text ? [/** @type {const} */ ({ type: 'text', id, text, state: 'done' })] : [];
  return {
    ...common, id, parent: parent === undefined ? leaf : parent, role: 'user', fold: foldFrom([...said, ...files]), turn: null, cursor: null,
  };
}

/** Select the branch that ends at `leaf`. @param {ThreadState} state @param {string} leaf @returns {ThreadState} */
export function choose(state, leaf) {
  return leaf === state.leaf ? state : { ...state, leaf, choosing: leaf };
}

/** The server's word about the thread alone. @param {ThreadState} state @param {ThreadInfo} info @returns {ThreadState} */
export function informed(state, info) {
  const choosing = info.leaf === state.choosing ? null : state.choosing;
  return { ...state, info, choosing };
}

/** @param {ThreadState} state @param {string} id @param {boolean} on @returns {ThreadState} */
export function setStopping(state, id, on) {
  const rest = state.stopping.filter((other) => other !== id);
  return { ...state, stopping: on ? [...rest, id] : rest };
}
