// Brings what a person wrote to the server, one message after the other, however long that takes. Effects.

import { ApiError } from './api.js';
import { uuidv7 } from './ids.js';
import { changeOutgoing, withdraw } from './thread_state.js';

/** @import {Api} from './api.js' */
/** @import {Retrier} from './retry.js' */
/** @import {Outgoing, ThreadState} from './thread_state.js' */
/** @import {Accepted} from './types.js' */

/**
 * The messages themselves are the thread's state: they are shown and kept with it.
 * @param {object} options
 * @param {string} options.thread
 * @param {Api} options.api
 * @param {Retrier} options.retrier
 * @param {() => ThreadState} options.state
 * @param {(next: ThreadState) => void} options.update
 * @param {(accepted: Accepted, outgoing: Outgoing) => void} options.accepted
 * @param {() => void} options.settled one was accepted, refused or taken back
 */
export function createOutbox({ thread, api, retrier, state, update, accepted, settled }) {
  /** @type {{id: string, controller: AbortController}|null} the message that is being sent; one at a time, in order */
  let sending = null;

  /** @param {string} id */
  const entry = (id) => state().outbox.find((outgoing) => outgoing.id === id);

  /** @param {string} id @param {Partial<Outgoing>} change */
  const mark = (id, change) => update(changeOutgoing(state(), id, change));

  /** Sends the first message that waits; each is followed by the next. */
  function deliver() {
    const { outbox, phase } = state();
    const next = outbox.find(({ refused }) => !refused);
    if (sending || !next || phase === 'loading') return;
    const controller = new AbortController();
    sending = { id: next.id, controller };
    deliverOne(next, controller.signal)
      .catch((error) => {
        if (controller.signal.aborted) return;
        if (!(error instanceof ApiError)) reportError(error);
        const { code = 'INTERNAL', message = '' } = /** @type {Partial<ApiError>} */ (error);
        mark(next.id, { refused: true, error: { code, message } });
      })
      .finally(() => {
        sending = null;
        settled();
        deliver();
      });
  }

  /** @param {Outgoing} outgoing @param {AbortSignal} signal */
  async function deliverOne(outgoing, signal) {
    accepted(
      await retrier.until(() => api.send(thread, outgoing, signal), signal, ({ code, message }) =>
        mark(outgoing.id, { error: { code, message } })),
      outgoing,
    );
  }

  return {
    deliver,

    busy: () => sending !== null,

    /** @param {string} id @returns {Outgoing|undefined} what was taken back; the server may have it nevertheless */
    takeBack(id) {
      const outgoing = entry(id);
      if (!outgoing) return undefined;
      if (sending?.id === id) sending.controller.abort(new DOMException('taken back', 'AbortError'));
      update(withdraw(state(), id));
      // It may have arrived though no answer came: the intent to stop it is kept by the server.
      const { signal } = new AbortController();
      retrier.until(() => api.stopMessage(thread, id, signal), signal).catch(() => undefined);
      return outgoing;
    },

    /** One that was refused. @param {string} id */
    sendAgain(id) {
      const outgoing = entry(id);
      if (!outgoing) return;
      mark(id, { id: outgoing.error?.code === 'MESSAGE_CONFLICT' ? uuidv7() : id, refused: false, error: null });
      deliver();
    },

    /** The thread was deleted: what is on its way to it would bring it back. */
    discard() {
      sending?.controller.abort(new DOMException('deleted', 'AbortError'));
      update({ ...state(), outbox: [] });
    },
  };
}
