import { signal } from '@preact/signals';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { ApiError } from '../src/api.js';
import { createManager } from '../src/manage.js';
import { createPreferences } from '../src/preferences.js';
import { createRetrier } from '../src/retry.js';
import { createSearch } from '../src/search.js';
import { messageOf, addressOf, threadOf } from '../src/route.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  localStorage.clear();
});

const settle = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

describe('F8 rename, pin, delete', () => {
  function open() {
    const threads = { list: signal({ threads: [] }), replace: vi.fn(), drop: vi.fn(), refresh: vi.fn(), more: vi.fn() };
    const api = { change: vi.fn(async (id, change) => ({ id, ...change })), remove: vi.fn(async () => null) };
    const changed = vi.fn();
    const removed = vi.fn();
    const manage = createManager(/** @type {any} */ ({ api, retrier: createRetrier(), threads, changed, removed }));
    return { threads, api, changed, removed, manage };
  }

  test('the list shows it at once, and asks when the server knows', async () => {
    const { threads, api, changed, manage } = open();
    const done = manage.change('t1', { title: 'New' });
    expect(threads.replace).toHaveBeenCalledWith('t1', { title: 'New' });
    expect(threads.refresh).not.toHaveBeenCalled();
    await done;
    expect(api.change).toHaveBeenCalledWith('t1', { title: 'New' });
    expect(changed).toHaveBeenCalledWith({ id: 't1', title: 'New' });
    expect(threads.refresh).toHaveBeenCalledOnce();
  });

  test('a deletion is kept until its fate is known', async () => {
    const { threads, api, removed, manage } = open();
    api.remove.mockRejectedValueOnce(new ApiError(0, 'NETWORK', ''));
    void manage.remove('t1');
    expect([threads.drop.mock.lastCall, removed.mock.lastCall]).toEqual([['t1'], ['t1']]);
    await settle(10_000);
    expect(api.remove).toHaveBeenCalledTimes(2);
    expect(threads.refresh).toHaveBeenCalledOnce();
  });

  test('what is refused is as it was', async () => {
    const { threads, api, changed, manage } = open();
    api.change.mockRejectedValueOnce(new ApiError(404, 'THREAD_NOT_FOUND', ''));
    await manage.change('t1', { pinned: true });
    expect(changed).not.toHaveBeenCalled();
    expect(threads.refresh).toHaveBeenCalledOnce();
  });
});

describe('F8 search', () => {
  const hit = (/** @type {string} */ message) => ({ thread: 't', title: 'T', message, role: 'user', at: 1, snippet: [] });

  test('the server is asked when nothing is typed for a moment, and an older answer is dropped', async () => {
    /** @type {any[]} */
    const asked = [];
    const search = createSearch(/** @type {any} */ ({ search: (/** @type {string} */ query, /** @type {AbortSignal} */ abort) => new Promise((resolve, reject) => {
      asked.push({ query, resolve });
      abort.addEventListener('abort', () => reject(abort.reason));
    }) }));
    search.look('a');
    search.look('ab');
    expect(search.found.value).toEqual({ query: 'ab', hits: [], state: 'asking' });
    await settle(500);
    expect(asked.map(({ query }) => query)).toEqual(['ab']);
    search.look('abc');
    asked[0].resolve({ hits: [hit('old')] });
    await settle(500);
    asked[1].resolve({ hits: [hit('new')] });
    await settle();
    expect(search.found.value).toEqual({ query: 'abc', hits: [hit('new')], state: 'done' });
    search.look('abcd'); // what was found stays in sight meanwhile
    expect(search.found.value).toEqual({ query: 'abcd', hits: [hit('new')], state: 'asking' });
    search.look(' ');
    await settle(500);
    expect([search.found.value, asked.length]).toEqual([{ query: ' ', hits: [], state: 'idle' }, 2]);
  });

  test('a failure is said', async () => {
    const search = createSearch(/** @type {any} */ ({ search: async () => { throw new ApiError(0, 'NETWORK', ''); } }));
    search.look('a');
    await settle(500);
    expect(search.found.value).toEqual({ query: 'a', hits: [], state: 'failed' });
  });

  test('a hit has an address', () => {
    const address = addressOf('thread-01', 'https://host/a/', 'message-01');
    expect(address).toBe('https://host/a/t/thread-01#message-01');
    expect([threadOf(address, 'https://host/a/'), messageOf(address)]).toEqual(['thread-01', 'message-01']);
    expect([messageOf('https://host/a/#x'), messageOf('https://host/a/t/x')]).toEqual([null, null]);
  });
});

test('F8 single keys stay as the person left them', () => {
  const open = () => createPreferences('https://host/a/', localStorage).singleKeys;
  expect(open().value).toBe(true);
  open().value = false;
  expect(open().value).toBe(false);
  open().value = true;
  expect(open().value).toBe(true);
  const refusing = /** @type {any} */ ({ getItem() { throw new Error('no'); }, setItem() { throw new Error('no'); } });
  const refused = createPreferences('https://host/a/', refusing).singleKeys;
  refused.value = false;
  expect([refused.value, createPreferences('https://host/a/', null).singleKeys.value]).toEqual([false, true]);
});
