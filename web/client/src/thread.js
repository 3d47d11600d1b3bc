// One thread as the page holds it: state, connection and what the person does. Effects.

import { signal } from '@preact/signals';

import { ApiError } from './api.js';
import { oncePerFrame } from './frames.js';
import { uuidv7 } from './ids.js';
import { createLink } from './link.js';
import { shown } from './link_state.js';
import {
  accept, applyEvent, changeOutgoing, emptyThread, ended, enqueue, find, merge, missing, plainText, setStopping,
  withdraw,
} from './thread_state.js';

/** @import {Api} from './api.js' */
/** @import {Drafts} from './drafts.js' */
/** @import {LinkState, Wake} from './link_state.js' */
/** @import {Retrier} from './retry.js' */
/** @import {Outgoing, ThreadState} from './thread_state.js' */
/** @import {Cursor, Event} from './types.js' */

/** @typedef {ReturnType<typeof createThread>} Thread */

/** @typedef {{shown: ReturnType<typeof shown>, until: number, waiting: boolean}} Connection */

/**
 * Sending goes on after `leave`; reading does not.
 * @param {object} options
 * @param {string} options.id
 * @param {boolean} options.fresh nobody has written to it yet
 * @param {Api} options.api
 * @param {Drafts} options.drafts
 * @param {Retrier} options.retrier
 * @param {() => void} options.changed the list of threads has become old
 */
export function createThread({ id, fresh, api, drafts, retrier, changed }) {
  /** @type {ThreadState} */
  let state = { ...emptyThread(id, fresh ? 'new' : 'loading'), outbox: drafts.outbox(id) };
  const view = signal(state);
  const connection = signal(/** @type {Connection} */ ({ shown: 'quiet', until: 0, waiting: false }));
  const draft = signal(drafts.text(draftKey()));
  /** @type {Map<string, AbortController>} of stops that are on their way, by answer */
  const stops = new Map();
  /** @type {{id: string, controller: AbortController}|null} the message that is being sent; one at a time, in order */
  let sending = null;

  const publish = oncePerFrame(() => { view.value = state; });
  const link = createLink(api, { apply, load, changed: linkChanged });

  /** Until it is sent to, a new thread has no address that a reload would bring back. */
  function draftKey() {
    return fresh && state.phase === 'new' && !state.outbox.length ? 'new' : id;
  }

  /** @param {string} text */
  function write(text) {
    draft.value = text;
    drafts.keepText(draftKey(), text);
  }

  /** @param {ThreadState} next */
  function update(next) {
    if (next === state) return;
    if (next.outbox !== state.outbox) drafts.keepOutbox(id, next.outbox);
    state = next;
    publish();
  }

  /** @param {LinkState} next */
  function linkChanged(next) {
    const { shown: before, until, waiting } = connection.peek();
    const now = { shown: shown(next), until: next.until, waiting: next.phase === 'waiting' };
    if (now.shown !== before || now.until !== until || now.waiting !== waiting) connection.value = now;
  }

  // reading

  /** @param {AbortSignal} signal @returns {Promise<Cursor|null>} */
  async function load(signal) {
    const before = state.accepts;
    try {
      const snapshot = await api.thread(id, signal);
      update(merge(state, snapshot, before));
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      if (state.accepts === before) update(missing(state));
    }
    deliver();
    return state.live?.cursor ?? null;
  }

  /** @param {Event} event @param {Cursor|null} cursor */
  function apply(event, cursor) {
    const over = event.type === 'outcome' ? state.live?.id : undefined;
    update(applyEvent(state, event, cursor));
    if (!over) return;
    stops.get(over)?.abort();
    followNext();
    changed();
  }

  function followNext() {
    if (state.live?.cursor) link.follow(state.live.cursor);
  }

  // sending

  /** @param {string} text @param {{parent?: string|null, during?: 'queue'|'interrupt'}} [options] */
  function send(text, { parent, during = 'queue' } = {}) {
    update(enqueue(state, { id: uuidv7(), text, parent, during, error: null, refused: false }));
    deliver();
  }

  /** Sends the first message that waits; each is followed by the next. */
  function deliver() {
    const next = state.outbox.find(({ refused }) => !refused);
    if (sending || !next || state.phase === 'loading') return;
    const controller = new AbortController();
    sending = { id: next.id, controller };
    deliverOne(next, controller.signal)
      .catch((error) => {
        if (controller.signal.aborted) return;
        if (!(error instanceof ApiError)) reportError(error);
        const { code = 'INTERNAL', message = '' } = /** @type {Partial<ApiError>} */ (error);
        update(changeOutgoing(state, next.id, { refused: true, error: { code, message } }));
      })
      .finally(() => {
        sending = null;
        deliver();
      });
  }

  /** @param {Outgoing} outgoing @param {AbortSignal} signal */
  async function deliverOne(outgoing, signal) {
    const accepted = await retrier.until(() => api.send(id, outgoing, signal), signal, ({ code, message }) =>
      update(changeOutgoing(state, outgoing.id, { error: { code, message } })));
    update(accept(state, accepted, Date.now()));
    const answer = find(state, accepted.turn);
    // Sent before, and over by now: only a snapshot has the answer.
    if (!answer || ended(answer.turn)) link.load();
    else followNext();
    changed();
  }

  /** Takes a message back that the server may not have; its text is the caller's. @param {string} messageId */
  function takeBack(messageId) {
    const outgoing = state.outbox.find((entry) => entry.id === messageId);
    if (!outgoing) return;
    if (sending?.id === messageId) sending.controller.abort(new DOMException('taken back', 'AbortError'));
    update(withdraw(state, messageId));
    write([draft.value, outgoing.text].filter(Boolean).join('\n\n'));
    // It may have arrived though no answer came: the intent to stop it is kept by the server.
    const { signal } = new AbortController();
    retrier.until(() => api.stopMessage(id, messageId, signal), signal).catch(() => undefined);
  }

  /** @param {string} messageId */
  function sendAgain(messageId) {
    const outgoing = state.outbox.find((entry) => entry.id === messageId);
    if (!outgoing) return;
    const again = outgoing.error?.code === 'MESSAGE_CONFLICT' ? uuidv7() : messageId;
    update(changeOutgoing(state, messageId, { id: again, refused: false, error: null }));
    deliver();
  }

  // stopping

  /** @param {string} answerId */
  async function stop(answerId) {
    const stream = find(state, answerId)?.turn?.stream;
    if (!stream || stops.has(answerId)) return;
    const followed = state.live?.id === answerId;
    const controller = new AbortController();
    stops.set(answerId, controller);
    update(setStopping(state, answerId, true));
    try {
      await retrier.until(() => api.stop(stream, controller.signal), controller.signal);
      if (!followed) link.load(); // nobody tells us of a turn that waits
    } catch (error) {
      if (controller.signal.aborted) return; // it ended
      update(setStopping(state, answerId, false));
      if (error instanceof ApiError) link.load();
      else reportError(error);
    } finally {
      stops.delete(answerId);
    }
  }

  return {
    id, view, connection, draft, send, sendAgain, stop, takeBack, write,

    /** The question of an answer once more, beside it. @param {string} answerId */
    retry(answerId) {
      const question = find(state, find(state, answerId)?.parent ?? '');
      if (question) send(plainText(question.fold), { parent: question.parent });
    },

    /** It is shown: load it, follow it. */
    enter() {
      if (state.phase === 'new') deliver();
      else link.load();
    },

    /** It is not shown any more: no connection is held for it. */
    leave: () => link.release(),

    /** @param {Wake} reason */
    wake(reason) {
      if (state.phase !== 'new') link.wake(reason);
    },
    hidden: () => link.hidden(),
    freeze: () => link.freeze(),
  };
}
