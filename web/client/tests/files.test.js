import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { ApiError } from '../src/api.js';
import { createDraftFiles } from '../src/draft_files.js';
import { createRetrier } from '../src/retry.js';
import { createUpload } from '../src/upload.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const settle = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const file = (name = 'a.txt', content = 'words') => new File([content], name, { type: 'text/plain' });
/** @param {string} id @param {File} sent */
const part = (id, sent) => ({ type: /** @type {const} */ ('file'), attachment: id, name: sent.name, mediaType: 'text/plain', size: sent.size });

/** @param {any} upload @param {any[]} [kept] */
function open(upload, kept = []) {
  const keep = vi.fn();
  const drafts = createDraftFiles({ upload, retrier: createRetrier(), limit: () => 10, kept, keep });
  return { drafts, keep, list: () => drafts.files.peek() };
}

describe('F8 files of a draft', () => {
  test('one is sent at once, tells how far it is, and is kept when it arrived', async () => {
    /** @type {any} */
    let call;
    const { drafts, keep, list } = open((/** @type {any[]} */ ...args) => new Promise((resolve) => { call = { args, resolve }; }));
    drafts.add([file()]);
    const [id, sent, , progress] = call.args;
    progress(0.25);
    expect(list()).toMatchObject([{ state: 'sending', share: 0.25, part: { attachment: id, name: 'a.txt', size: 5 } }]);
    expect(keep).toHaveBeenLastCalledWith([]);
    call.resolve(part(id, sent));
    await settle();
    expect(list()).toMatchObject([{ state: 'ready', share: 1 }]);
    expect(keep).toHaveBeenLastCalledWith([part(id, sent)]);
    expect(drafts.take()).toEqual([part(id, sent)]);
    expect([list(), keep.mock.lastCall]).toEqual([[], [[]]]);
    drafts.putBack([part(id, sent)]);
    expect(list()).toMatchObject([{ state: 'ready', part: { attachment: id } }]);
  });

  test('a network that fails is tried again with the same id, a refusal is said', async () => {
    let failures = 2;
    const upload = vi.fn(async (id, sent) => {
      if (sent.name === 'bad') throw new ApiError(400, 'ATTACHMENT_INVALID', 'Only images');
      if (failures-- > 0) throw new ApiError(0, 'NETWORK', '');
      return part(id, sent);
    });
    const { drafts, list } = open(upload);
    drafts.add([file(), file('bad')]);
    await settle(1);
    expect(list().map(({ state, error }) => [state, error?.code])).toEqual([['sending', 'NETWORK'], ['refused', 'ATTACHMENT_INVALID']]);
    await settle(10_000);
    expect(list().map(({ state, error }) => [state, error])).toEqual([['ready', null], ['refused', { code: 'ATTACHMENT_INVALID', message: 'Only images' }]]);
    const ids = upload.mock.calls.filter(([, { name }]) => name !== 'bad').map(([id]) => id);
    expect([ids.length, new Set(ids).size]).toEqual([3, 1]);
    expect(drafts.take()).toHaveLength(1); // what was refused goes with it
    expect(list()).toEqual([]);
  });

  test('one that is too large is not sent, one that is removed is stopped', async () => {
    const upload = vi.fn((_, __, signal) => new Promise((_resolve, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); }));
    const { drafts, list } = open(upload);
    drafts.add([file('big', 'more than ten'), file()]);
    expect(list().map(({ state, error }) => [state, error?.code])).toEqual([['refused', 'BODY_TOO_LARGE'], ['sending', undefined]]);
    expect(upload).toHaveBeenCalledTimes(1);
    drafts.remove(upload.mock.calls[0][0]);
    await settle();
    expect(upload.mock.calls[0][2].aborted).toBe(true);
    expect(list()).toHaveLength(1);
  });

  test('those that arrived before a reload are there', () => {
    const known = part('id-12345', file());
    expect(open(vi.fn(), [known]).list()).toEqual([{ part: known, state: 'ready', share: 1, error: null }]);
  });
});

describe('F5 E7 uploads', () => {
  /** The requests that were made. @type {any[]} */
  let requests;

  class FakeRequest extends EventTarget {
    upload = new EventTarget();
    headers = /** @type {Record<string, string>} */ ({});
    status = 0;
    responseText = '';
    constructor() { super(); requests.push(this); }
    /** @param {string} method @param {URL} url */
    open(method, url) { Object.assign(this, { method, url: String(url) }); }
    /** @param {string} name @param {string} value */
    setRequestHeader(name, value) { this.headers[name] = value; }
    /** @param {any} body */
    send(body) { Object.assign(this, { body }); }
    abort() { this.end(0, ''); }
    /** @param {number} status @param {string} text */
    end(status, text) {
      Object.assign(this, { status, responseText: text });
      this.dispatchEvent(new Event('loadend'));
    }
  }

  beforeEach(() => {
    requests = [];
    vi.stubGlobal('XMLHttpRequest', FakeRequest);
  });

  /** @param {AbortSignal} [signal] */
  function start(signal = new AbortController().signal) {
    const signedOut = vi.fn();
    const progress = vi.fn();
    const result = createUpload({ base: 'https://host/a/', signedOut })('id-12345', file('ä b.txt'), signal, progress).then((value) => ({ value }), (error) => ({ error }));
    return { signedOut, progress, result: /** @type {Promise<any>} */ (result), request: requests[0] };
  }

  test('the file is put below the base path, and described by the server', async () => {
    const { request, result, progress } = start();
    expect([request.method, request.url]).toEqual(['PUT', 'https://host/a/api/attachments/id-12345?name=%C3%A4%20b.txt']);
    expect(request.headers).toEqual({ Accept: 'application/json', 'Content-Type': 'text/plain' });
    request.upload.dispatchEvent(Object.assign(new Event('progress'), { loaded: 2, total: 5 }));
    expect(progress).toHaveBeenCalledWith(0.4);
    request.end(201, '{"id":"id-12345","name":"b.txt","mediaType":"text/plain","size":5}');
    expect((await result).value).toEqual({ type: 'file', attachment: 'id-12345', name: 'b.txt', mediaType: 'text/plain', size: 5 });
  });

  test('what goes wrong is said as elsewhere', async () => {
    const refused = start();
    refused.request.end(413, '{"code":"BODY_TOO_LARGE","message":"Too large"}');
    expect((await refused.result).error).toMatchObject({ status: 413, code: 'BODY_TOO_LARGE', message: 'Too large' });
    requests = [];
    const proxy = start();
    proxy.request.end(502, '<html>');
    expect((await proxy.result).error).toMatchObject({ code: 'HTTP', passing: true });
    requests = [];
    const unknown = start();
    unknown.request.end(401, '{"code":"SIGN_IN_REQUIRED"}');
    expect((await unknown.result).error).toMatchObject({ signedOut: true });
    expect(unknown.signedOut).toHaveBeenCalledOnce();
  });

  test('a connection on which nothing moves is given up; a stop is no failure of it', async () => {
    const stalled = start();
    await settle(20_000);
    stalled.request.upload.dispatchEvent(Object.assign(new Event('progress'), { loaded: 2, total: 5 }));
    await settle(29_000);
    stalled.request.upload.dispatchEvent(Object.assign(new Event('progress'), { loaded: 3, total: 5 }));
    await settle(31_000);
    expect((await stalled.result).error).toMatchObject({ code: 'NETWORK', passing: true });
    requests = [];
    const controller = new AbortController();
    const stopped = start(controller.signal);
    controller.abort('enough');
    expect((await stopped.result).error).toBe('enough');
  });
});
