// Makes an idempotent request until its fate is known. Effects.

import { ApiError } from './api.js';
import { backoffMs } from './backoff.js';

/** @typedef {ReturnType<typeof createRetrier>} Retrier */

/** Waits of all its requests end together when the page wakes. */
export function createRetrier() {
  /** @type {Set<() => void>} ends one wait each */
  const waits = new Set();

  /** @param {number|null} ms null: until it is woken @param {AbortSignal} signal */
  function pause(ms, signal) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        waits.delete(end);
        signal.removeEventListener('abort', end);
        resolve(undefined);
      };
      const timer = ms === null ? undefined : setTimeout(end, ms);
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
          if (!(error instanceof ApiError) || !(error.passing || error.signedOut)) throw error;
          failed?.(error);
          // Signing in wakes it; asking again before would be refused again.
          await pause(error.signedOut ? null : backoffMs(failures, Math.random(), error.retryAfterMs), signal);
          signal.throwIfAborted();
        }
      }
    },

    /** The page is awake, online again or signed in: try at once. */
    wake() {
      for (const end of [...waits]) end();
    },
  };
}
