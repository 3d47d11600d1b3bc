// The seams to the browser: requests, waking, storage, addresses.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { ApiError, createApi } from '../src/api.js';
import { createDrafts } from '../src/drafts.js';
import { oncePerFrame } from '../src/frames.js';
import { uuidv7 } from '../src/ids.js';
import { addressOf, threadOf } from '../src/route.js';
import { createThreadList, firstPage, nextPage } from '../src/threads.js';
import { listenForWaking } from '../src/wake.js';
import { json, refusal } from './fake_server.js';

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('F5 E7 requests', () => {
  /** @param {(url: URL, init: RequestInit) => any} answer */
  const api = (answer) => createApi({ base: 'https://host/a/b/', fetch: /** @type {any} */ (async (url, init) => answer(url, init)) });

  test('F5 E7 all are below the base path and carry the same credentials', async () => {
    /** @type {any[]} */
    const seen = [];
    const all = api((url, init) => {
      seen.push([init.method, url.href, init.credentials, init.redirect]);
      return json(200, {});
    });
    await all.threads();
    await all.threads('x y');
    await all.thread('t1');
    await all.send('t1', { id: 'm', text: 'x', during: 'queue' });
    await all.send('t1', { id: 'k', question: 'm', text: '', during: 'queue' });
    await all.change('t1', { pinned: true });
    await all.remove('t1');
    await all.search('a&b');
    await all.models();
    await all.stop('s1');
    await all.stopMessage('t1', 'm');
    await all.follow({ stream: 's1', seq: 3 }, new AbortController().signal);
    expect(seen.map(([method, href]) => `${method} ${href}`)).toEqual([
      'GET https://host/a/b/api/threads', 'GET https://host/a/b/api/threads?after=x%20y', 'GET https://host/a/b/api/threads/t1',
      'POST https://host/a/b/api/threads/t1/messages', 'POST https://host/a/b/api/threads/t1/messages/m/answers',
      'PATCH https://host/a/b/api/threads/t1', 'DELETE https://host/a/b/api/threads/t1', 'GET https://host/a/b/api/search?q=a%26b',
      'GET https://host/a/b/api/models', 'DELETE https://host/a/b/api/streams/s1',
      'DELETE https://host/a/b/api/threads/t1/turns/m', 'GET https://host/a/b/api/streams/s1',
    ]);
    for (const [, , credentials, redirect] of seen) expect([credentials, redirect]).toEqual(['same-origin', 'error']);
  });

  test('F3 the stream is asked for after the cursor', async () => {
    const { headers } = await new Promise((resolve) => {
      void api((_, init) => { resolve({ headers: new Headers(init.headers) }); return json(200, {}); })
        .follow({ stream: 's1', seq: 3 }, new AbortController().signal);
    });
    expect([headers.get('Accept'), headers.get('Last-Event-ID')]).toEqual(['text/event-stream', 's1:3']);
  });

  test('errors have a code, and say whether trying again may help', async () => {
    /** @param {any} answer @returns {Promise<any>} */
    const failure = (answer) => api(answer).threads().then(() => null, (error) => error);
    expect(await failure(() => refusal(503, 'SHUTTING_DOWN', { 'Retry-After': '2' })))
      .toMatchObject({ status: 503, code: 'SHUTTING_DOWN', message: 'Because of SHUTTING_DOWN', retryAfterMs: 2_000, passing: true });
    expect(await failure(() => refusal(404, 'THREAD_NOT_FOUND'))).toMatchObject({ code: 'THREAD_NOT_FOUND', passing: false });
    expect(await failure(() => new Response('<html>', { status: 502 }))).toMatchObject({ code: 'HTTP', passing: true });
    expect(await failure(() => new Response('<html>'))).toMatchObject({ code: 'NOT_OURS', passing: true });
    expect(await failure(() => { throw new TypeError('Load failed'); })).toMatchObject({ status: 0, code: 'NETWORK', passing: true });
    expect(await failure(() => refusal(409, 'TURN_RUNNING'))).toBeInstanceOf(ApiError);
  });
});

test('F1 every listener is taken away again, and each signal is heard', () => {
  /** @type {[EventTarget, string, any][]} */
  const added = [];
  /** @type {any[]} */
  const removed = [];
  for (const target of [window, document]) {
    vi.spyOn(target, 'addEventListener').mockImplementation((type, listener) => { added.push([target, type, listener]); });
    vi.spyOn(target, 'removeEventListener').mockImplementation((type, listener) => { removed.push([target, type, listener]); });
  }
  const hooks = { wake: vi.fn(), hidden: vi.fn(), freeze: vi.fn(), online: vi.fn() };
  const stop = listenForWaking(window, hooks);
  for (const [, type, listener] of added) listener({ type, persisted: true });
  stop();
  vi.restoreAllMocks();
  expect(removed).toEqual(added);
  expect(hooks.wake.mock.calls.flat()).toEqual(['visible', 'resume', 'pageshow', 'focus', 'online']);
  expect(hooks.freeze).toHaveBeenCalledTimes(1);
  expect(hooks.online.mock.calls.flat()).toEqual([false, true]);
});

test('one update a frame, however often it is asked for; hidden pages are updated too', async () => {
  vi.useFakeTimers();
  const update = vi.fn();
  const ask = oncePerFrame(update);
  for (let i = 0; i < 100; i++) ask();
  await vi.advanceTimersByTimeAsync(20);
  expect(update).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(update).toHaveBeenCalledTimes(1);
  const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
  ask();
  await vi.advanceTimersByTimeAsync(500);
  expect(update).toHaveBeenCalledTimes(2);
  hidden.mockRestore();
});

test('what asks for the next frame in each frame gets one of each', async () => {
  vi.useFakeTimers();
  const update = vi.fn(() => ask());
  const ask = oncePerFrame(update);
  ask();
  await vi.advanceTimersByTimeAsync(3_000); // longer than the timer of hidden pages
  expect(update.mock.calls.length).toBeLessThan(3_000 / 16 + 2);
});

test('ids are UUIDs of version 7 and sort by time', () => {
  expect(uuidv7()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(uuidv7(0x0123456789ab)).toMatch(/^01234567-89ab-7/);
  expect(uuidv7(1_000) < uuidv7(2_000)).toBe(true);
  expect(new Set(Array.from({ length: 1_000 }, () => uuidv7(5))).size).toBe(1_000);
});

test('E7 addresses of threads are below the base path', () => {
  for (const base of ['https://host/', 'https://host/chat/']) {
    expect(addressOf('thread-1234', base)).toBe(`${base}t/thread-1234`);
    expect(addressOf(null, base)).toBe(base);
    expect(threadOf(`${base}t/thread-1234?x#y`, base)).toBe('thread-1234');
    expect(threadOf(base, base)).toBe(null);
    expect(threadOf(`${base}t/no%20id`, base)).toBe(null);
  }
});

describe('drafts', () => {
  beforeEach(() => localStorage.clear());

  /** A tab's own storage. @returns {Storage} */
  function ownStorage() {
    const kept = new Map();
    return /** @type {any} */ ({
      getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
      setItem: (/** @type {string} */ key, /** @type {string} */ value) => kept.set(key, value),
      removeItem: (/** @type {string} */ key) => kept.delete(key),
    });
  }

  /** A tab, or the same one after a reload. */
  const opened = (tab = ownStorage(), base = 'http://h/a/') => createDrafts(base, localStorage, tab);

  test('they are kept per base and thread, and without storage nothing breaks', () => {
    const drafts = opened();
    drafts.keepText('t', 'x');
    expect(opened().text('t')).toBe('x');
    expect(opened(undefined, 'http://h/b/').text('t')).toBe('');
    drafts.keepText('t', '');
    expect(localStorage.length).toBe(0);
    const full = /** @type {any} */ ({ getItem() { throw new Error('no'); }, setItem() { throw new Error('full'); } });
    for (const storage of [null, full]) {
      const without = createDrafts('http://h/a/', storage, storage);
      without.keepText('t', 'x');
      without.keepText('t', '');
      without.forget('t');
      expect([without.text('t'), without.outbox('t'), without.files('t')]).toEqual(['', [], []]);
    }
  });

  test('two tabs that write at the same place have each its own back', () => {
    const [one, other] = [ownStorage(), ownStorage()];
    opened(one).keepText('new', 'first');
    opened(other).keepText('new', 'second');
    opened(one).keepFiles('new', [/** @type {any} */ ({ attachment: 'a' })]);
    opened(other).keepFiles('new', [/** @type {any} */ ({ attachment: 'b' })]);
    expect([opened(one).text('new'), opened(other).text('new')]).toEqual(['first', 'second']);
    expect([opened(one).files('new'), opened(other).files('new')]).toEqual([[{ attachment: 'a' }], [{ attachment: 'b' }]]);
    expect(opened().text('new')).toBe('second'); // whoever comes new goes on where writing stopped
  });

  test('what one tab sent is empty there, and takes nothing away from the other', () => {
    const [one, other] = [ownStorage(), ownStorage()];
    opened(one).keepText('new', 'first');
    opened(other).keepText('new', 'second');
    opened(one).keepText('new', ''); // sent
    expect([opened(one).text('new'), opened(other).text('new')]).toEqual(['', 'second']);
    expect(opened().text('new')).toBe('second');
    opened(other).keepText('new', '');
    expect([opened(one).text('new'), opened().text('new')]).toEqual(['', '']);
    expect(localStorage.length).toBe(0);
  });

  test('a tab that took over what a closed one had written can send it', () => {
    opened().keepText('new', 'left behind');
    const drafts = opened();
    expect(drafts.text('new')).toBe('left behind');
    drafts.keepText('new', '');
    expect(opened().text('new')).toBe('');
  });
});

test('pages of the list join without repeats', () => {
  const thread = (/** @type {string} */ id, /** @type {number} */ updatedAt) => /** @type {any} */ ({ id, updatedAt });
  const one = firstPage({ threads: [], next: null, loaded: false }, { threads: [thread('a', 9), thread('b', 8)], next: 'n1' });
  const two = nextPage(one, { threads: [thread('b', 8), thread('c', 7)], next: 'n2' });
  expect(two.threads.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
  const fresh = firstPage(two, { threads: [thread('d', 10), thread('a', 9)], next: 'n9' });
  expect(fresh.threads.map(({ id }) => id)).toEqual(['d', 'a', 'b', 'c']);
  expect(fresh.next).toBe('n2');
  // Also when there are no more pages.
  const all = firstPage({ ...two, next: null }, { threads: [thread('d', 10), thread('a', 9)], next: 'n9' });
  expect([all.threads.length, all.next]).toEqual([4, null]);
  // So much is new that some of it is on neither.
  expect(firstPage(two, { threads: [thread('f', 12), thread('e', 11)], next: 'n9' })).toEqual({ threads: [thread('f', 12), thread('e', 11)], next: 'n9', loaded: true });
  expect(firstPage(two, { threads: [thread('a', 9)], next: null }).threads).toHaveLength(1);
});

describe('F8 the list of threads while answers are under way', () => {
  const threads = (/** @type {number} */ newest, /** @type {number} */ oldest) =>
    Array.from({ length: newest - oldest + 1 }, (_, n) => /** @type {any} */ ({ id: `t${newest - n}`, updatedAt: newest - n }));

  /** A list whose requests are answered by hand: `asked` has where each begins and its answer. */
  function held() {
    vi.stubGlobal('reportError', (/** @type {unknown} */ error) => { throw error; });
    /** @type {{after: string|undefined, answer: (page: any) => Promise<void>}[]} */
    const asked = [];
    const api = /** @type {any} */ ({
      threads: (/** @type {string|undefined} */ after) => new Promise((resolve) => {
        asked.push({ after, answer: async (page) => { resolve(page); await new Promise((done) => setTimeout(done)); } });
      }),
    });
    const list = createThreadList(api, /** @type {any} */ ({ until: (/** @type {() => Promise<any>} */ attempt) => attempt() }));
    return { list, asked, ids: () => list.list.value.threads.map(({ id }) => id) };
  }

  test('older ones that come during a refresh stay', async () => {
    const { list, asked, ids } = held();
    list.refresh();
    await asked[0]?.answer({ threads: threads(9, 7), next: '7' });
    list.more();
    list.refresh();
    await asked[1]?.answer({ threads: threads(6, 4), next: '4' });
    await asked[2]?.answer({ threads: threads(9, 7), next: '7' });
    expect(ids()).toEqual(['t9', 't8', 't7', 't6', 't5', 't4']);
    expect(list.list.value.next).toBe('4');
  });

  test('a refresh that begins anew leads to the older ones from there', async () => {
    const { list, asked, ids } = held();
    list.refresh();
    await asked[0]?.answer({ threads: threads(3, 2), next: '2' });
    list.more();
    list.refresh();
    await asked[2]?.answer({ threads: threads(9, 8), next: '8' });
    await asked[1]?.answer({ threads: threads(1, 1), next: null });
    expect(asked.map(({ after }) => after)).toEqual([undefined, '2', undefined, '8']);
    await asked[3]?.answer({ threads: threads(7, 6), next: '6' });
    expect(ids()).toEqual(['t9', 't8', 't7', 't6']);
  });

  test('a hasty second click asks for nothing more', async () => {
    const { list, asked } = held();
    list.refresh();
    await asked[0]?.answer({ threads: threads(3, 2), next: '2' });
    list.more();
    list.more();
    expect(asked).toHaveLength(2);
    await asked[1]?.answer({ threads: threads(1, 1), next: null });
    list.more();
    expect(asked).toHaveLength(2);
  });
});
