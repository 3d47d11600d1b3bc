// Makes an idempotent request until its fate is known. Effects.

import { ApiError } from './api.js';
import { backoffMs } from './backoff.js';

/** @typedef {ReturnType<typeof createRetrier>} Retrier */

/** Waits of all its requests end together when the page wakes. */
export function createRetrier() {
  /** @type {Set<() => void>} ends one wait each */
  const waits = new Set();

  /** @param {number} ms @param {AbortSignal} signal */
  function pause(ms, signal) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        waits.delete(end);
        signal.removeEventListener('abort', end);
        resolve(undefined);
      };
      const timer = setTimeout(end, ms);
      waits.add(end);
      signal.addEventListener('abort', end);
    });
  }

  return {
    /**
     * @template T
     * @param {() => Promise<T>} attempt raises ApiError
     * @param {AbortSignal} signal ends it; then what it was aborted with is raised
     * @param {(error: ApiError) => void} [failed] told before each wait
     * @returns {Promise<T>} raises ApiError where trying again makes no sense
     */
    async until(attempt, signal, failed) {
      for (let failures = 1; ; failures++) {
        try {
          return await attempt();
        } catch (error) {
          signal.throwIfAborted();
          if (!(error instanceof ApiError) || !error.passing) throw error;
          failed?.(error);
          await pause(backoffMs(failures, Math.random(), error.retryAfterMs), signal);
          signal.throwIfAborted();
        }
      }
    },

    /** The page is awake, or online again: try at once. */
    wake() {
      for (const end of [...waits]) end();
    },
  };
}
