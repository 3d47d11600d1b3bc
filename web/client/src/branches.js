// The tree of a thread's messages: its branches, and what is shown of it. Pure.

import { branch } from './thread_state.js';

/** @import {Message, Outgoing} from './thread_state.js' */

/**
 * The messages that stand in one place of the conversation, in the order they were made.
 * @typedef {ReadonlyMap<string|null, readonly Message[]>} Children by parent
 */

/** @param {readonly Message[]} messages @returns {Children} */
export function childrenOf(messages) {
  /** @type {Map<string|null, Message[]>} */
  const children = new Map();
  for (const message of messages) {
    const beside = children.get(message.parent);
    if (beside) beside.push(message);
    else children.set(message.parent, [message]);
  }
  return children;
}

/**
 * The end of the newest branch through a message.
 * @param {readonly Message[]} messages
 * @param {string} id
 */
export function endOf(messages, id) {
  const children = childrenOf(messages);
  let end = id;
  for (let left = messages.length; left > 0; left--) { // a circle would end here
    const next = children.get(end)?.at(-1);
    if (!next) break;
    end = next.id;
  }
  return end;
}

/**
 * What becomes of the answers that are being written or wait, when a question gets a new version.
 * @param {import('./thread_state.js').ThreadState} state
 * @param {string} id of the question
 * @returns {Pick<Outgoing, 'during'|'replaces'>}
 */
export function rewriting({ messages, live }, id) {
  // One that waits is replaced where it waits; the answer before it goes on.
  if (messages.some(({ parent, turn }) => parent === id && turn?.state === 'queued')) return { during: 'queue', replaces: id };
  // What is being written below it answers a question that is not asked any more.
  const below = live !== null && branch(messages, live.id).some((message) => message.id === id);
  return { during: below ? 'interrupt' : 'queue' };
}

/**
 * The selected branch as it is shown: up to where the first message on its way will stand.
 * @param {readonly Message[]} messages
 * @param {string|null} leaf
 * @param {readonly Outgoing[]} outbox
 * @returns {Message[]}
 */
export function shownPath(messages, leaf, outbox) {
  const path = branch(messages, leaf);
  const [first] = outbox;
  const parent = first?.question ?? first?.parent;
  if (!first || parent === undefined) return path;
  return path.slice(0, path.findIndex(({ id }) => id === parent) + 1);
}

