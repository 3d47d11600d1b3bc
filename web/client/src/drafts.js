// What was written and has not been accepted yet, kept over a reload. Effects. Without storage (private
// windows, a full disk) the page works as before and forgets with the page.

/** @import {Rewriting} from './edits.js' */
/** @import {Outgoing} from './thread_state.js' */
/** @import {FilePart} from './types.js' */

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

  /** @param {string} kind @param {string} thread */
  function list(kind, thread) {
    try {
      return JSON.parse(get(name(kind, thread)) ?? '[]');
    } catch {
      return [];
    }
  }

  /** @param {string} kind @param {string} thread @param {readonly unknown[]} entries */
  function keepList(kind, thread, entries) {
    put(name(kind, thread), entries.length ? JSON.stringify(entries) : null);
  }

  return {
    /** When the page went away while this thread's answer was being written; ms since 1970. @param {string} thread @returns {number|null} */
    left: (thread) => Number(get(name('left', thread))) || null,
    /** @param {string} thread @param {number|null} at */
    keepLeft: (thread, at) => put(name('left', thread), at === null ? null : String(at)),
    /** @param {string} thread */
    text: (thread) => get(name('draft', thread)) ?? '',
    /** @param {string} thread @param {string} text */
    keepText: (thread, text) => put(name('draft', thread), text || null),
    /** @param {string} thread @returns {Outgoing[]} */
    outbox: (thread) => list('outbox', thread),
    /** @param {string} thread @param {readonly Outgoing[]} outbox @param {readonly Outgoing[]} before this tab's, as it was */
    keepOutbox: (thread, outbox, before) => {
      const ours = new Set([...outbox, ...before].map(({ id }) => id));
      const others = list('outbox', thread).filter((/** @type {Outgoing} */ { id }) => !ours.has(id)); // another tab's
      keepList('outbox', thread, [...others, ...outbox]);
    },
    /** Files of the draft that arrived. @param {string} thread @returns {FilePart[]} */
    files: (thread) => list('files', thread),
    /** @param {string} thread @param {readonly FilePart[]} files */
    keepFiles: (thread, files) => keepList('files', thread, files),
    /** @param {string} thread @returns {Rewriting[]} */
    edits: (thread) => list('edit', thread),
    /** @param {string} thread @param {readonly Rewriting[]} rewritings */
    keepEdits: (thread, rewritings) => keepList('edit', thread, rewritings),
    /** The thread was deleted. @param {string} thread */
    forget(thread) {
      for (const kind of ['draft', 'outbox', 'files', 'edit', 'left']) put(name(kind, thread), null);
    },
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
