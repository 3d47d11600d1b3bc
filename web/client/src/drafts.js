// What was written and has not been accepted yet, kept over a reload. Effects. Without storage (private
// windows, a full disk) the page works as before and forgets with the page.

/** @import {Outgoing} from './thread_state.js' */

/** @typedef {ReturnType<typeof createDrafts>} Drafts */

/** @param {string} base one server may be mounted several times in one origin @param {Storage|null} storage */
export function createDrafts(base, storage) {
  /** @param {string} key @param {string|null} value */
  function put(key, value) {
    try {
      if (value === null) storage?.removeItem(key);
      else storage?.setItem(key, value);
    } catch {
      // Full: the text is still in its box.
    }
  }

  /** @param {string} key */
  function get(key) {
    try {
      return storage?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  /** @param {string} kind @param {string} thread */
  const name = (kind, thread) => `unbroken:${new URL(base).pathname}:${kind}:${thread}`;

  return {
    /** @param {string} thread */
    text: (thread) => get(name('draft', thread)) ?? '',
    /** @param {string} thread @param {string} text */
    keepText: (thread, text) => put(name('draft', thread), text || null),
    /** @param {string} thread @returns {Outgoing[]} */
    outbox: (thread) => {
      try {
        return JSON.parse(get(name('outbox', thread)) ?? '[]');
      } catch {
        return [];
      }
    },
    /** @param {string} thread @param {readonly Outgoing[]} outbox */
    keepOutbox: (thread, outbox) => put(name('outbox', thread), outbox.length ? JSON.stringify(outbox) : null),
  };
}

/** The browser's storage; null where it is refused. @param {Window} window */
export function storageOf(window) {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
