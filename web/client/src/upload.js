// Sends a file and tells how far it got, which `fetch` cannot. Effects.

import { ApiError } from './api.js';

/** @import {FilePart} from './types.js' */

/** Nothing moved for so long: the connection is dead. */
const STALL_LIMIT_MS = 30_000;

/** @typedef {ReturnType<typeof createUpload>} Upload */

/**
 * @param {object} options
 * @param {string} options.base address the paths of web/PROTOCOL.md are relative to; ends with "/"
 * @param {() => void} options.signedOut told when an answer says that the caller is not known (any more)
 */
export function createUpload({ base, signedOut }) {
  /**
   * Idempotent. Raises ApiError, and what `signal` was aborted with.
   * @param {string} id the client's
   * @param {File} file
   * @param {AbortSignal} signal
   * @param {(share: number) => void} progress told the share that is sent, 0 to 1
   * @returns {Promise<FilePart>}
   */
  return (id, file, signal, progress) => new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    let stall;
    const moved = () => {
      clearTimeout(stall);
      stall = setTimeout(abort, STALL_LIMIT_MS);
    };
    request.open('PUT', new URL(`api/attachments/${id}?name=${encodeURIComponent(file.name)}`, base));
    request.setRequestHeader('Accept', 'application/json');
    request.setRequestHeader('Content-Type', file.type || 'application/octet-stream');
    request.upload.addEventListener('progress', ({ loaded, total }) => {
      moved();
      progress(total ? loaded / total : 1);
    });
    request.addEventListener('loadend', () => {
      clearTimeout(stall);
      signal.removeEventListener('abort', abort);
      if (signal.aborted) reject(signal.reason);
      else if (request.status === 201) resolve({ type: 'file', attachment: id, ...described(request.responseText) });
      else if (request.status === 0) void failed();
      else reject(refusal(request));
    });
    signal.addEventListener('abort', abort);
    moved();
    request.send(file);

    /** Of a folder, or a file that was changed meanwhile, the browser tells no more than of a lost network. */
    async function failed() {
      // Of a piece of what is gone Chromium reads nothing, without an error, and its size is 0.
      const some = file.size ? file.slice(0, 1) : file;
      const readable = await some.arrayBuffer().then(({ byteLength }) => byteLength === some.size, () => false);
      reject(readable ? new ApiError(0, 'NETWORK', '') : new ApiError(400, 'FILE_UNREADABLE', ''));
    }

    /** @param {XMLHttpRequest} answer */
    function refusal({ status, responseText }) {
      if (status === 401) signedOut();
      const { code = 'HTTP', message = '' } = parsed(responseText);
      return new ApiError(status, String(code), String(message));
    }
  });
}

/** @param {string} text @returns {Pick<FilePart, 'name'|'mediaType'|'size'>} */
function described(text) {
  const { name, mediaType, size } = parsed(text);
  return { name, mediaType, size };
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {}; // not every answer on the way is ours
  }
}
