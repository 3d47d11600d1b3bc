// The files of a message that is being written: sent at once, named in the message later. Effects.

import { signal } from '@preact/signals';

import { ApiError } from './api.js';
import { uuidv7 } from './ids.js';

/** @import {Retrier} from './retry.js' */
/** @import {FilePart} from './types.js' */
/** @import {Upload} from './upload.js' */

/**
 * @typedef {object} DraftFile
 * @property {FilePart} part
 * @property {'sending'|'ready'|'refused'} state
 * @property {number} share of it that is sent, 0 to 1
 * @property {{code: string, message: string}|null} error why it is not through yet, or never will be
 */

/** @typedef {ReturnType<typeof createDraftFiles>} DraftFiles */

/**
 * Those that arrived survive a reload; the bytes of the others are gone with the page.
 * @param {object} options
 * @param {Upload} options.upload
 * @param {Retrier} options.retrier
 * @param {() => number} options.limit bytes; larger files are refused here
 * @param {readonly FilePart[]} options.kept those that arrived before
 * @param {(parts: readonly FilePart[]) => void} options.keep
 */
export function createDraftFiles({ upload, retrier, limit, kept, keep }) {
  const files = signal(/** @type {readonly DraftFile[]} */ (kept.map(ready)));
  /** @type {Map<string, AbortController>} of files on their way */
  const sending = new Map();

  /** @param {readonly DraftFile[]} next */
  function update(next) {
    files.value = next;
    keep(arrived(next));
  }

  /** @param {string} id @param {Partial<DraftFile>} changes */
  function change(id, changes) {
    update(files.value.map((file) => (file.part.attachment === id ? { ...file, ...changes } : file)));
  }

  /** @param {File} file */
  async function send(file) {
    const id = uuidv7();
    const part = { type: /** @type {const} */ ('file'), attachment: id, name: file.name, mediaType: file.type, size: file.size };
    const tooLarge = file.size > limit();
    const error = tooLarge ? { code: 'BODY_TOO_LARGE', message: '' } : null;
    update([...files.value, { part, state: tooLarge ? 'refused' : 'sending', share: 0, error }]);
    if (tooLarge) return;
    const controller = new AbortController();
    sending.set(id, controller);
    const { signal } = controller;
    try {
      const sent = await retrier.until(() => upload(id, file, signal, (share) => change(id, { share })), signal,
        ({ code, message }) => change(id, { share: 0, error: { code, message } }));
      change(id, ready(sent));
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof ApiError)) reportError(failure);
      const { code = 'INTERNAL', message = '' } = /** @type {Partial<ApiError>} */ (failure);
      change(id, { state: 'refused', error: { code, message } });
    } finally {
      sending.delete(id);
    }
  }

  return {
    files,

    /** @param {Iterable<File>} added */
    add: (added) => [...added].forEach(send),

    /** @param {string} id */
    remove(id) {
      sending.get(id)?.abort(new DOMException('removed', 'AbortError'));
      update(files.value.filter(({ part }) => part.attachment !== id));
    },

    /** Takes those that arrived out, for a message. Refused ones go as well. */
    take() {
      const parts = arrived(files.value);
      update(files.value.filter(({ state }) => state === 'sending'));
      return parts;
    },

    /** @param {readonly FilePart[]} parts of a message that was taken back */
    putBack: (parts) => update([...parts.map(ready), ...files.value]),
  };
}

/** @param {FilePart} part @returns {DraftFile} */
function ready(part) {
  return { part, state: 'ready', share: 1, error: null };
}

/** @param {readonly DraftFile[]} files */
function arrived(files) {
  return files.filter(({ state }) => state === 'ready').map(({ part }) => part);
}
