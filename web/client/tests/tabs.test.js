import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { createApi } from '../src/api.js';
import { LIVENESS_MS } from '../src/link_transitions.js';
import { createTabs } from '../src/tabs.js';

/** Web Locks as far as they are used: one holder, a queue, stealing. */
class Locks {
  constructor() {
    /** @type {any[]} */
    this.queue = [];
    /** @type {any} */
    this.holder = null;
  }

  request(/** @type {string} */ _name, /** @type {any} */ options, /** @type {() => Promise<void>} */ callback) {
    return new Promise((resolve, reject) => {
      const entry = { callback, resolve, reject };
      if (options.steal && this.holder) {
        this.holder.reject(new DOMException('stolen', 'AbortError'));
        this.holder = null;
        this.queue.unshift(entry);
      } else {
        this.queue.push(entry);
      }
      queueMicrotask(() => this.next());
    });
  }

  next() {
    const entry = this.holder ? null : this.queue.shift();
    if (!entry) return;
    this.holder = entry;
    void entry.callback().then(() => {
      if (this.holder !== entry) return;
      this.holder = null;
      entry.resolve();
      this.next();
    });
  }
}

/** A server with a feed that the test writes. */
class FeedServer {
  constructor() {
    /** @type {{after: string|null, controller: ReadableStreamDefaultController, closed: boolean}[]} */
    this.connections = [];
    this.fetch = (/** @type {any} */ _url, /** @type {any} */ { headers, signal }) => {
      /** @type {any} */
      const connection = { after: headers['Last-Event-ID'] ?? null, closed: false };
      const body = new ReadableStream({ start: (controller) => { connection.controller = controller; } });
      signal.addEventListener('abort', () => {
        if (!connection.closed) connection.controller.error(signal.reason);
        connection.closed = true;
      });
      this.connections.push(connection);
      return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }));
    };
  }

  get open() { return this.connections.filter(({ closed }) => !closed); }

  /** @param {string} text */
  write(text) {
    for (const { controller } of this.open) controller.enqueue(new TextEncoder().encode(text));
  }

  /** @param {number} n */
  change(n) {
    this.write(`id: e:${n}\ndata: ${JSON.stringify({ thread: `t${n}`, version: n, state: 'idle', deleted: false })}\n\n`);
  }
}

/** @type {Map<string, Set<any>>} */
const channels = new Map();

class Channel extends EventTarget {
  constructor(/** @type {string} */ name) {
    super();
    this.peers = channels.get(name) ?? new Set();
    channels.set(name, this.peers.add(this));
  }

  postMessage(/** @type {any} */ data) {
    for (const peer of this.peers) if (peer !== this) peer.dispatchEvent(new MessageEvent('message', { data }));
  }

  close() { this.peers.delete(this); }
}

describe('F7 many tabs', () => {
  const server = new FeedServer();
  /** @type {Locks} */
  let locks;
  /** @type {any[]} */
  let tabs;

  beforeEach(() => {
    vi.useFakeTimers();
    channels.clear();
    locks = new Locks();
    server.connections = [];
    tabs = [];
  });

  afterEach(() => {
    tabs.forEach(({ tab }) => tab.close());
    vi.useRealTimers();
  });

  async function open({ shared = true } = {}) {
    /** @type {any} */
    const entry = { news: [], document: { hidden: false } };
    const api = createApi({ base: 'http://x/', fetch: /** @type {any} */ (server.fetch) });
    entry.tab = createTabs({
      window: /** @type {any} */ ({ navigator: shared ? { locks } : {}, BroadcastChannel: Channel, document: entry.document }),
      base: 'http://x/', api,
      news: (/** @type {any} */ change) => entry.news.push(change.reset ? 'reset' : change.version),
    });
    tabs.push(entry);
    await settle();
    return entry;
  }

  const settle = () => vi.advanceTimersByTimeAsync(1);

  test('F7 twelve tabs hold one feed, and all are told', async () => {
    for (let i = 0; i < 12; i++) await open();
    expect(server.open).toHaveLength(1);
    server.change(1);
    await settle();
    for (const { news } of tabs) expect(news).toEqual([1]);
  });

  test('F7 when the reading tab closes, another goes on after the last change it was told', async () => {
    const first = await open();
    const second = await open();
    server.change(1);
    await settle();
    first.tab.close();
    await settle();
    expect(server.open.map(({ after }) => after)).toEqual(['e:1']);
    server.change(2);
    await settle();
    expect(second.news).toEqual([1, 2]);
    expect(first.news).toEqual([1]);
  });

  test('F7 a seen tab takes over from one that holds the lock and says nothing', async () => {
    const first = await open();
    const second = await open();
    server.change(1);
    await settle();
    first.tab.close = () => undefined; // frozen: it neither speaks nor lets go
    await vi.advanceTimersByTimeAsync(2 * LIVENESS_MS);
    expect(server.open).toHaveLength(1);
    expect(server.open[0].after).toBe('e:1');
    server.change(2);
    await settle();
    expect(second.news).toEqual([1, 2]);
  });

  test('F2 a silent feed is replaced, beats keep it', async () => {
    await open();
    for (let i = 0; i < 10; i++) {
      server.write(': 1\n\n');
      await vi.advanceTimersByTimeAsync(5_000);
    }
    expect(server.connections).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(LIVENESS_MS + 6_000);
    expect(server.connections.length).toBeGreaterThan(1);
    expect(server.open).toHaveLength(1);
  });

  test('F7 without locks a hidden tab gives its feed back and takes it up again', async () => {
    const only = await open({ shared: false });
    expect(server.open).toHaveLength(1);
    only.document.hidden = true;
    only.tab.hidden();
    await settle();
    expect(server.open).toHaveLength(0);
    only.document.hidden = false;
    only.tab.wake();
    await settle();
    expect(server.open).toHaveLength(1);
  });

  test('F7 a tab that slept while others were told loads everything again', async () => {
    const first = await open();
    const second = await open();
    server.change(1);
    await settle();
    for (const channel of channels.values()) {
      const [, deaf] = channel;
      channel.delete(deaf);
      server.change(2);
      await settle();
      channel.add(deaf);
    }
    server.write(': 2\n\n');
    await vi.advanceTimersByTimeAsync(3_000);
    server.write(': 2\n\n');
    await settle();
    expect(first.news).toEqual([1, 2]);
    expect(second.news).toEqual([1, 'reset']);
  });
});
