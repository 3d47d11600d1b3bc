// What was written and has not been accepted yet, kept over a reload. Effects. Without storage (private
// windows, a full disk) the page works as before and forgets with the page.

/** @import {Rewriting} from './edits.js' */
/** @import {Outgoing} from './thread_state.js' */
/** @import {FilePart} from './types.js' */

/** @typedef {ReturnType<typeof createDrafts>} Drafts */

/**
 * @param {string} base one server may be mounted several times in one origin
 * @param {Storage|null} storage of all tabs
 * @param {Storage|null} tab this one's
 */
export function createDrafts(base, storage, tab) {
  /** @param {string} key @param {string|null} value @param {Storage|null} [where] */
  function put(key, value, where = storage) {
    try {
      if (value === null) where?.removeItem(key);
      else where?.setItem(key, value);
    } catch {
      // Full: the text is still in its box.
    }
  }

  /** @param {string} key @param {Storage|null} [where] */
  function get(key, where = storage) {
    try {
      return where?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  /** What is being written may differ between tabs: each has its own back, a new one the last. @param {string} key */
  const written = (key) => get(key, tab) ?? get(key);

  /** @param {string} key @param {string|null} value */
  function keepWritten(key, value) {
    const before = get(key, tab);
    put(key, value ?? '', tab); // empty: the other tabs' is not wanted here
    if (value === null && before !== null && before !== get(key)) return; // another tab's, which goes on
    put(key, value);
  }

  /** @param {string} kind @param {string} thread */
  const name = (kind, thread) => `unbroken:${new URL(base).pathname}:${kind}:${thread}`;

  /** @param {string|null} text */
  function listed(text) {
    try {
      return JSON.parse(text || '[]');
    } catch {
      return [];
    }
  }

  /** @param {readonly unknown[]} entries */
  const listing = (entries) => (entries.length ? JSON.stringify(entries) : null);

  return {
    /** When the page went away while this thread's answer was being written; ms since 1970. @param {string} thread @returns {number|null} */
    left: (thread) => Number(get(name('left', thread))) || null,
    /** @param {string} thread @param {number|null} at */
    keepLeft: (thread, at) => put(name('left', thread), at === null ? null : String(at)),
    /** @param {string} thread */
    text: (thread) => written(name('draft', thread)) ?? '',
    /** @param {string} thread @param {string} text */
    keepText: (thread, text) => keepWritten(name('draft', thread), text || null),
    /** @param {string} thread @returns {Outgoing[]} */
    outbox: (thread) => listed(get(name('outbox', thread))),
    /** @param {string} thread @param {readonly Outgoing[]} outbox @param {readonly Outgoing[]} before this tab's, as it was */
    keepOutbox: (thread, outbox, before) => {
      const ours = new Set([...outbox, ...before].map(({ id }) => id));
      const others = listed(get(name('outbox', thread))).filter((/** @type {Outgoing} */ { id }) => !ours.has(id)); // another tab's
      put(name('outbox', thread), listing([...others, ...outbox]));
    },
    /** Files of the draft that arrived. @param {string} thread @returns {FilePart[]} */
    files: (thread) => listed(written(name('files', thread))),
    /** @param {string} thread @param {readonly FilePart[]} files */
    keepFiles: (thread, files) => keepWritten(name('files', thread), listing(files)),
    /** @param {string} thread @returns {Rewriting[]} */
    edits: (thread) => listed(get(name('edit', thread))),
    /** @param {string} thread @param {readonly Rewriting[]} rewritings */
    keepEdits: (thread, rewritings) => put(name('edit', thread), listing(rewritings)),
    /** The thread was deleted. @param {string} thread */
    forget(thread) {
      for (const kind of ['draft', 'outbox', 'files', 'edit', 'left']) {
        put(name(kind, thread), null);
        put(name(kind, thread), null, tab);
      }
    },
  };
}

/** The browser's storage of one kind; null where it is refused. @param {Window} window @param {'localStorage'|'sessionStorage'} [kind] */
export function storageOf(window, kind = 'localStorage') {
  try {
    return window[kind];
  } catch {
    return null;
  }
}
