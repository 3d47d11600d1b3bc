// What a person does with threads from the list: rename, pin, delete. Effects.

import { ApiError } from './api.js';

/** @import {Api} from './api.js' */
/** @import {Retrier} from './retry.js' */
/** @import {Threads} from './threads.js' */
/** @import {ThreadChange, ThreadInfo} from './types.js' */

/**
 * The list shows each change at once; what the server says of it comes with the next refresh.
 * @param {object} options
 * @param {Api} options.api
 * @param {Retrier} options.retrier
 * @param {Threads} options.threads
 * @param {(info: ThreadInfo) => void} options.changed
 * @param {(id: string) => void} options.removed the person does not want to see it any more
 */
export function createManager({ api, retrier, threads, changed, removed }) {
  const { signal } = new AbortController(); // a wish is kept until its fate is known

  /** @param {() => Promise<void>} request */
  async function until(request) {
    try {
      await retrier.until(request, signal);
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error);
    }
    threads.refresh(); // refused: the list is as it was
  }

  return {
    /** @param {string} id @param {ThreadChange} change */
    change(id, change) {
      threads.replace(id, change);
      return until(async () => changed(await api.change(id, change)));
    },

    /** @param {string} id */
    remove(id) {
      threads.drop(id);
      removed(id);
      return until(() => api.remove(id));
    },
  };
}
