// When nobody listened to a thread's answer: what is said of it to whoever comes back. Effects.

import { signal } from '@preact/signals';

/** Nobody listened for less than this: not worth a word. */
const AWAY_MS = 15_000;

/** When nobody listened to an answer, ms since 1970; or the server was restarted under it. @typedef {{from: number, to: number, restarted?: boolean}} Away */

/** @typedef {ReturnType<typeof createAbsence>} Absence */

/**
 * @param {number|null} left ms since 1970, when the page went away while an answer was being written
 * @param {(at: number|null) => void} keep the same, over a reload
 */
export function createAbsence(left, keep) {
  /** Shown until something is sent, or it is put away. */
  const away = signal(/** @type {Away|null} */ (null));
  let since = left; // null while the answer is listened to

  return {
    away,

    /** There is no connection though an answer is being written. */
    deaf() {
      since ??= Date.now();
    },

    heard() {
      if (since === null) return;
      const to = Date.now();
      if (to - since >= AWAY_MS) away.value = { from: since, to };
      since = null;
      keep(null);
    },

    /** An answer goes on in another stream: the server was restarted under it. */
    restarted() {
      away.value = { from: Date.now(), to: Date.now(), restarted: true };
    },

    /** The page goes while an answer is being written. */
    gone: () => keep(since ?? Date.now()),
  };
}
