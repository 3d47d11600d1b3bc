// A server of web/PROTOCOL.md in memory, behind `fetch`: enough of it for the client's tests. Faults are
// asked for one by one.

/** @typedef {{id: string, events: any[], turn: any, readers: Set<any>}} FakeStream */

const encoder = new TextEncoder();

export class FakeServer {
  constructor() {
    /** @type {Map<string, {info: any, messages: any[]}>} */
    this.threads = new Map();
    /** @type {Map<string, FakeStream>} */
    this.streams = new Map();
    /** @type {{method: string, path: string, headers: Headers, body: any}[]} */
    this.requests = [];
    /** Called before each request; what it returns or raises is the answer. @type {((request: any) => any)|null} */
    this.fault = null;
    /** The response to a request is lost after the server has dealt with it. @type {((request: any) => boolean)|null} */
    this.loses = null;
    /** By the key of the request. @type {Map<string, any>} */
    this.answers = new Map();
    this.fetch = this.fetch.bind(this);
    this.count = 0;
  }

  /** @param {string} method @param {RegExp} path */
  seen(method, path) {
    return this.requests.filter((request) => request.method === method && path.test(request.path));
  }

  // the log

  /** @param {string} streamId @param {any[]} events */
  append(streamId, ...events) {
    const stream = this.streams.get(streamId);
    for (const event of events) {
      stream.events.push(event);
      if (event.type === 'start') stream.turn.state = 'running';
      if (event.type === 'outcome') Object.assign(stream.turn, { state: event.outcome, outcome: event, ended: true });
      for (const reader of stream.readers) this.deliver(reader);
    }
  }

  /** Seals a stream and opens its successor. @param {string} streamId @param {any[]} parts */
  supersede(streamId, parts) {
    const old = this.streams.get(streamId);
    const successor = this.stream(old.turn);
    successor.events.push({ type: 'snapshot', parts });
    old.turn.stream = successor.id;
    this.append(streamId, { type: 'superseded', stream: successor.id });
    return successor.id;
  }

  /** @param {any} turn @returns {FakeStream} */
  stream(turn) {
    const stream = { id: `stream-${++this.count}-abcdefghijklmnop`, events: [], turn, readers: new Set() };
    this.streams.set(stream.id, stream);
    return stream;
  }

  /** @param {string} threadId @param {any} message */
  accept(threadId, { id, parts, parent }) {
    let thread = this.threads.get(threadId);
    if (!thread) {
      thread = { info: { id: threadId, title: null, createdAt: 1, updatedAt: 1, version: 0, state: 'idle', leaf: null }, messages: [] };
      this.threads.set(threadId, thread);
    }
    const known = thread.messages.find((message) => message.id === id);
    const answer = known && thread.messages.find((message) => message.parent === id);
    if (answer) return { threadId, id, answer, repeated: true };
    thread.messages.push({ id, parent: parent === undefined ? thread.info.leaf : parent, role: 'user', createdAt: 1, parts });
    return { threadId, id, answer: this.answer(thread, id), repeated: false };
  }

  /** @param {any} thread @param {string} question */
  answer(thread, question) {
    const turn = { state: 'queued', stream: '', model: 'fake', status: null, outcome: null, parts: [] };
    turn.stream = this.stream(turn).id;
    const made = { id: `turn-${++this.count}-0123456789`, parent: question, role: 'assistant', createdAt: 2, turn };
    thread.messages.push(made);
    thread.info.leaf = made.id;
    thread.info.version += 1;
    return made;
  }

  /** Another answer; the same key gives the same one. @param {string} threadId @param {string} question @param {string} key */
  again(threadId, question, key) {
    const known = this.answers.get(key);
    const answer = known ?? this.answer(this.threads.get(threadId), question);
    this.answers.set(key, answer);
    return { threadId, id: question, answer, repeated: known !== undefined };
  }

  /** @param {string} id @param {any} change */
  change(id, change) {
    const { info } = this.threads.get(id);
    Object.assign(info, change, { version: info.version + 1 });
    return json(200, info);
  }

  // faults

  /** The network breaks. */
  cut() { this.dropReaders((controller) => controller.error(new TypeError('network error'))); }

  /** Something between ends the responses tidily. */
  close() { this.dropReaders((controller) => controller.close()); }

  /** @param {(controller: any) => void} drop */
  dropReaders(drop) {
    for (const { readers } of this.streams.values()) {
      for (const reader of [...readers]) {
        readers.delete(reader);
        drop(reader.controller);
      }
    }
  }

  get readerCount() { return [...this.streams.values()].reduce((sum, { readers }) => sum + readers.size, 0); }

  beat() { this.raw(': 1\n\n'); }

  /** @param {string} text */
  raw(text) {
    for (const { readers } of this.streams.values()) {
      for (const { controller } of readers) controller.enqueue(encoder.encode(text));
    }
  }

  // requests

  /** @param {URL} url @param {RequestInit} init */
  async fetch(url, init) {
    const request = { method: init.method, path: url.pathname + url.search, headers: new Headers(init.headers), body: init.body ? JSON.parse(String(init.body)) : null };
    this.requests.push(request);
    init.signal?.throwIfAborted();
    const wrong = await this.fault?.(request);
    init.signal?.throwIfAborted();
    if (wrong) return wrong;
    const response = await this.route(request, init.signal);
    if (this.loses?.(request)) throw new TypeError('Failed to fetch');
    return response;
  }

  /** @param {any} request @param {AbortSignal} signal */
  route({ method, path, headers, body }, signal) {
    const [, , first, id, second, message, third] = path.split(/[/?]/);
    if (first === 'threads' && !id) return json(200, { threads: [...this.threads.values()].map(({ info }) => info), next: null });
    if (first === 'threads' && third === 'answers') return json(202, this.accepted(this.again(id, message, body.id)));
    if (first === 'threads' && method === 'PATCH') return this.change(id, body);
    if (first === 'threads' && second === 'messages') return json(202, this.accepted(this.accept(id, body)));
    if (first === 'threads' && second === 'turns') return this.stopMessage(id, message);
    if (first === 'threads') return this.threads.has(id) ? json(200, this.snapshot(id)) : refusal(404, 'THREAD_NOT_FOUND');
    const stream = this.streams.get(id);
    if (!stream) return refusal(404, 'STREAM_NOT_FOUND');
    if (method === 'DELETE') return this.stopStream(stream);
    if (path.includes('wait=')) return this.poll(stream, new URLSearchParams(path.split('?')[1]), signal);
    return this.follow(stream, headers.get('Last-Event-ID'), signal);
  }

  /** @param {any} made */
  accepted({ threadId, id, answer: { id: turn, turn: { stream, state } }, repeated }) {
    return { thread: threadId, message: id, turn, stream, cursor: `${stream}:0`, state, repeated };
  }

  /** A snapshot may be folded by the test: `turn.parts` at `turn.seq`. @param {string} id */
  snapshot(id) {
    const { info, messages } = this.threads.get(id);
    return structuredClone({
      thread: info,
      messages: messages.map((message) => message.role === 'user' ? message : {
        ...message,
        parts: message.turn.parts,
        turn: { state: message.turn.state, stream: message.turn.stream, model: 'fake', status: null, outcome: message.turn.outcome,
          cursor: message.turn.outcome ? null : `${message.turn.stream}:${message.turn.seq ?? 0}` },
      }),
    });
  }

  /** @param {FakeStream} stream */
  stopStream(stream) {
    if (!stream.turn.ended) {
      this.append(stream.turn.stream, { type: 'outcome', outcome: 'cancelled', code: 'CANCELLED', text: 'Stopped', retryable: true, at: 9 });
    }
    return new Response(null, { status: 204 });
  }

  /** @param {string} threadId @param {string} messageId */
  stopMessage(threadId, messageId) {
    const answer = this.threads.get(threadId)?.messages.find(({ parent }) => parent === messageId);
    return answer ? this.stopStream(this.streams.get(answer.turn.stream)) : new Response(null, { status: 204 });
  }

  /** @param {FakeStream} stream @param {URLSearchParams} query @param {AbortSignal} signal */
  async poll(stream, query, signal) {
    const [name, seq] = (query.get('after') ?? '').split(':');
    const at = { name, seq: Number(seq) };
    const until = Date.now() + 1_000 * Number(query.get('wait'));
    for (;;) {
      signal.throwIfAborted();
      const events = [];
      for (let next = this.next(at); next; next = this.next(at)) events.push(next);
      const ended = events.at(-1)?.event.type === 'outcome' || (!events.length && stream.turn.ended);
      if (events.length || ended || Date.now() >= until) return json(200, { events, cursor: `${at.name}:${at.seq}`, ended });
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  }

  /** The event after a position, which moves on. @param {{name: string, seq: number}} at */
  next(at) {
    const event = this.streams.get(at.name)?.events[at.seq];
    if (!event) return null;
    at.seq += 1;
    const found = { id: `${at.name}:${at.seq}`, event };
    if (event.type === 'superseded') Object.assign(at, { name: event.stream, seq: 0 });
    return found;
  }

  /** @param {FakeStream} stream @param {string|null} lastEventId @param {AbortSignal} signal */
  follow(stream, lastEventId, signal) {
    const [name, seq] = (lastEventId ?? `${stream.id}:0`).split(':');
    const reader = { name, seq: Number(seq), controller: /** @type {any} */ (null), stream: null };
    const server = this;
    const body = new ReadableStream({
      start(controller) {
        reader.controller = controller;
        controller.enqueue(encoder.encode(': open\n\nretry: 1000\n\n'));
        server.attach(reader);
      },
      cancel() { server.detach(reader); },
    });
    signal?.addEventListener('abort', () => {
      if (server.detach(reader)) reader.controller.error(signal.reason);
    });
    return new Response(body, { status: 200, headers: { 'Content-Type': 'text/event-stream' } });
  }

  /** @param {any} reader */
  attach(reader) {
    this.streams.get(reader.name).readers.add(reader);
    this.deliver(reader);
  }

  /** @param {any} reader */
  detach(reader) {
    return [...this.streams.values()].some(({ readers }) => readers.delete(reader));
  }

  /** Everything after the reader's position. @param {any} reader */
  deliver(reader) {
    const stream = this.streams.get(reader.name);
    while (reader.seq < stream.events.length) {
      const event = stream.events[reader.seq++];
      reader.controller.enqueue(encoder.encode(`id: ${reader.name}:${reader.seq}\ndata: ${JSON.stringify(event)}\n\n`));
      if (event.type === 'outcome') {
        this.detach(reader);
        reader.controller.close();
        return;
      }
      if (event.type === 'superseded') {
        this.detach(reader);
        reader.name = event.stream;
        reader.seq = 0;
        this.attach(reader);
        return;
      }
    }
  }
}

/** @param {number} status @param {unknown} body */
export function json(status, body, headers = {}) {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } });
}

/** @param {number} status @param {string} code */
export function refusal(status, code, headers = {}) {
  return json(status, { code, message: `Because of ${code}` }, headers);
}
