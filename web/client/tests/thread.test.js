import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { createApi } from '../src/api.js';
import { createDrafts } from '../src/drafts.js';
import { uuidv7 } from '../src/ids.js';
import { createRetrier } from '../src/retry.js';
import { createThread } from '../src/thread.js';
import { branch, ended, plainText } from '../src/thread_state.js';
import { FakeServer, json, refusal } from './fake_server.js';

const BASE = 'http://localhost:3000/chat/';
const OUTCOME = { type: 'outcome', outcome: 'finished', code: 'FINISHED', text: '', retryable: false, at: 1 };
const delta = (value) => ({ type: 'text-delta', id: 'p', delta: value });
const START = [{ type: 'start', model: 'fake' }, { type: 'start-step' }, { type: 'text-start', id: 'p' }];

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  localStorage.clear();
});

/** Lets everything that is under way happen. @param {number} [ms] */
const settle = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

/** @param {FakeServer} server @param {{id?: string, fresh?: boolean}} [options] */
function open(server, { id = uuidv7(), fresh = true } = {}) {
  const api = createApi({ base: BASE, fetch: /** @type {any} */ (stripBase(server)) });
  const retrier = createRetrier();
  const changed = vi.fn();
  const drafts = createDrafts(BASE, localStorage, null);
  const upload = vi.fn();
  const thread = createThread({ id, fresh, api, drafts, retrier, upload, fileLimit: () => 1_000, changed });
  thread.enter();
  return { thread, retrier, changed, drafts, upload, state: () => thread.view.peek() };
}

/** The fake speaks of paths below the base. @param {FakeServer} server */
const stripBase = (server) => (/** @type {URL} */ url, /** @type {RequestInit} */ init) => {
  expect(url.href.startsWith(BASE)).toBe(true); // E7: everything is below the base path
  return server.fetch(new URL(`/${url.href.slice(BASE.length)}`, 'http://localhost'), init);
};

/** @param {any} state */
const lastAnswer = (state) => {
  const id = branch(state.messages, state.leaf).at(-1)?.id;
  return state.live?.id === id ? state.live : state.messages.find((message) => message.id === id);
};
/** @param {any} state */
const lastText = (state) => plainText(lastAnswer(state).fold);

/** @param {FakeServer} server */
const newest = (server) => [...server.streams.keys()].at(-1);

/** A thread with a running answer. @param {FakeServer} server @param {any} [options] */
async function running(server, options) {
  const page = open(server, options);
  page.thread.send('Hi');
  await settle();
  server.append(newest(server), ...START);
  await settle(20);
  return page;
}

describe('T5 F6 sending', () => {
  test('T5 F6 the first message creates the thread under the client’s id and is followed', async () => {
    const server = new FakeServer();
    const { thread, state, changed } = await running(server);
    server.append(newest(server), delta('Hel'), delta('lo'), OUTCOME);
    await settle(20);
    expect([...server.threads.keys()]).toEqual([thread.id]);
    expect(lastText(state())).toBe('Hello');
    expect(ended(lastAnswer(state()).turn)).toBe(true);
    expect(server.readerCount).toBe(0);
    expect(changed).toHaveBeenCalledTimes(2);
    expect(server.seen('POST', /messages/)[0].body).toEqual({ id: expect.any(String), parts: [{ type: 'text', text: 'Hi' }], during: 'queue' });
  });

  test('T5 a lost response is asked for again with the same id: one turn', async () => {
    const server = new FakeServer();
    let losses = 2;
    server.loses = ({ method }) => method === 'POST' && losses-- > 0;
    const { thread, state } = open(server);
    thread.send('Hi');
    await settle(50);
    expect(state().outbox[0]).toMatchObject({ refused: false, error: { code: 'NETWORK' } });
    await settle(10_000);
    const posts = server.seen('POST', /messages/);
    expect(posts).toHaveLength(3);
    expect(new Set(posts.map(({ body }) => body.id)).size).toBe(1);
    expect(server.streams.size).toBe(1);
    expect(state().outbox).toEqual([]);
  });

  test('T5 an answer that never comes is given up after a while and asked for again', async () => {
    const server = new FakeServer();
    let hangs = true;
    server.fault = ({ method }) => (method === 'POST' && hangs ? new Promise(() => undefined) : undefined);
    const hanging = server.fetch;
    server.fetch = (url, init) => Promise.race([hanging(url, init), new Promise((_, reject) => {
      init.signal?.addEventListener('abort', () => reject(init.signal?.reason));
    })]);
    const { thread, state } = open(server);
    thread.send('Hi');
    await settle(14_000);
    hangs = false;
    expect(server.seen('POST', /messages/)).toHaveLength(1);
    await settle(3_000);
    expect(server.seen('POST', /messages/)).toHaveLength(2);
    expect(state().outbox).toEqual([]);
  });

  test('waking up tries at once', async () => {
    const server = new FakeServer();
    server.fault = () => { throw new TypeError('Failed to fetch'); };
    const { thread, retrier, state } = open(server);
    thread.send('Hi');
    await settle(20_000);
    const before = server.requests.length;
    server.fault = null;
    retrier.wake();
    await settle(20);
    expect(server.requests.length).toBeGreaterThan(before);
    expect(state().outbox).toEqual([]);
  });

  test('a refused message stays, says why, and can be sent again or taken back: no text is lost', async () => {
    const server = new FakeServer();
    server.fault = ({ method }) => (method === 'POST' ? refusal(413, 'BODY_TOO_LARGE') : undefined);
    const { thread, state } = open(server);
    thread.send('long text');
    await settle(20);
    expect(state().outbox[0]).toMatchObject({ text: 'long text', refused: true, error: { code: 'BODY_TOO_LARGE', message: 'Because of BODY_TOO_LARGE' } });
    await settle(60_000);
    expect(server.seen('POST', /messages/)).toHaveLength(1);
    thread.write('and a draft');
    thread.takeBack(state().outbox[0].id);
    await settle(20);
    expect(thread.draft.value).toBe('and a draft\n\nlong text');
    expect(state().outbox).toEqual([]);
    expect(server.seen('DELETE', /turns/)).toHaveLength(1); // it may have arrived all the same
  });

  test('an id that is taken is replaced when the message is sent again', async () => {
    const server = new FakeServer();
    server.fault = ({ method }) => (method === 'POST' ? refusal(409, 'MESSAGE_CONFLICT') : undefined);
    const { thread, state } = open(server);
    thread.send('Hi');
    await settle(20);
    const { id } = state().outbox[0];
    server.fault = null;
    thread.sendAgain(id);
    await settle(20);
    const ids = server.seen('POST', /messages/).map(({ body }) => body.id);
    expect(ids[1]).not.toBe(ids[0]);
    expect(state().outbox).toEqual([]);
  });

  test('what was not accepted survives a reload, and is sent then', async () => {
    const server = new FakeServer();
    server.fault = () => { throw new TypeError('Failed to fetch'); };
    const first = open(server);
    first.thread.send('Hi');
    first.thread.write('half a thou');
    await settle(20);
    server.fault = null;
    const again = open(server, { id: first.thread.id, fresh: false });
    await settle(20);
    expect(again.thread.draft.value).toBe('half a thou');
    expect(server.seen('POST', /messages/)).toHaveLength(2);
    expect(again.state()).toMatchObject({ outbox: [], phase: 'ready' });
  });

  test('T4 messages are sent in order and answered in order', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    const first = newest(server);
    thread.send('two');
    thread.send('three');
    await settle(20);
    expect(server.seen('POST', /messages/).map(({ body }) => body.parts[0].text)).toEqual(['Hi', 'two', 'three']);
    const [, second, third] = server.streams.keys();
    server.append(first, delta('1'), OUTCOME);
    server.append(second, ...START, delta('2'), OUTCOME);
    await settle(20);
    server.append(third, ...START, delta('3'), OUTCOME);
    await settle(20);
    expect(branch(state().messages, state().leaf).map(({ fold }) => plainText(fold))).toEqual(['Hi', '1', 'two', '2', 'three', '3']);
  });

  test('a question is asked again beside its failed answer', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.append(newest(server), { ...OUTCOME, outcome: 'failed', code: 'MODEL_EOF', retryable: true });
    await settle(20);
    const [question, failed] = branch(state().messages, state().leaf);
    thread.answerAgain(question.id);
    await settle(20);
    const [again] = server.seen('POST', /answers/);
    expect([again.path, again.body]).toEqual([`/api/threads/${thread.id}/messages/${question.id}/answers`, { id: expect.any(String), during: 'queue' }]);
    expect(branch(state().messages, state().leaf)).toEqual([question, state().live]);
    expect(state().messages).toContain(failed);
    server.append(newest(server), ...START, delta('better'), OUTCOME);
    await settle(20);
    expect(lastText(state())).toBe('better');
  });
});

describe('F8 what a person does with a conversation', () => {
  /** One question and its answer. @param {FakeServer} server */
  async function answered(server) {
    const page = await running(server);
    server.append(newest(server), delta('one'), OUTCOME);
    await settle(20);
    return page;
  }

  test('a question that is written anew begins a branch, and the old one is selected again', async () => {
    const server = new FakeServer();
    const { thread, state } = await answered(server);
    const [question, old] = branch(state().messages, state().leaf);
    thread.send('Hello', { parent: question.parent });
    await settle(20);
    expect(server.seen('POST', /messages$/)[1].body).toMatchObject({ parent: null, parts: [{ type: 'text', text: 'Hello' }] });
    server.append(newest(server), ...START, delta('two'), OUTCOME);
    await settle(20);
    thread.select(question.id);
    await settle(20);
    expect(state()).toMatchObject({ leaf: old.id, choosing: null });
    expect(server.seen('PATCH', /threads/).map(({ body }) => body)).toEqual([{ leaf: old.id }]);
    thread.select(question.id); // it is already
    await settle(20);
    expect(server.seen('PATCH', /threads/)).toHaveLength(1);
  });

  test('a message follows the branch that is seen, though the server does not know of it', async () => {
    const server = new FakeServer();
    const { thread, state } = await answered(server);
    const [question, old] = branch(state().messages, state().leaf);
    thread.answerAgain(question.id);
    await settle(20);
    server.append(newest(server), ...START, delta('two'), OUTCOME);
    await settle(20);
    server.fault = ({ method }) => (method === 'PATCH' ? refusal(503, 'SHUTTING_DOWN') : undefined);
    thread.select(old.id);
    await settle(20);
    thread.send('more');
    await settle(60_000);
    expect(server.seen('POST', /messages$/)[1].body.parent).toBe(old.id);
    expect(server.seen('PATCH', /threads/)).toHaveLength(1); // the older wish is given up
    expect(branch(state().messages, state().leaf).map(({ id }) => id).slice(0, 2)).toEqual([question.id, old.id]);
  });

  test('a lost response to the wish for another answer makes one answer', async () => {
    const server = new FakeServer();
    const { thread, state } = await answered(server);
    let losses = 2;
    server.loses = ({ path }) => path.endsWith('/answers') && losses-- > 0;
    thread.answerAgain(state().messages[0].id);
    await settle(20_000);
    const wishes = server.seen('POST', /answers/);
    expect([wishes.length, new Set(wishes.map(({ body }) => body.id)).size, server.streams.size]).toEqual([3, 1, 2]);
    expect(state()).toMatchObject({ outbox: [], live: { parent: state().messages[0].id } });
  });

  test('files go with the draft, and come back when it is taken back', async () => {
    const server = new FakeServer();
    const { thread, upload, state, drafts } = open(server);
    upload.mockImplementation(async (id, file) => ({ type: 'file', attachment: id, name: file.name, mediaType: 'text/plain', size: 1 }));
    thread.files.add([new File(['x'], 'a.txt')]);
    thread.write('look');
    await settle(20);
    expect(drafts.files('new')).toHaveLength(1); // survives a reload
    server.fault = ({ method }) => (method === 'POST' ? refusal(413, 'BODY_TOO_LARGE') : undefined);
    thread.sendDraft();
    await settle(20);
    const [{ attachment }] = /** @type {any} */ (state().outbox[0].files);
    expect(server.seen('POST', /messages/)[0].body.parts).toEqual([{ type: 'text', text: 'look' }, { type: 'file', attachment }]);
    expect([thread.draft.value, thread.files.files.value, drafts.files('new')]).toEqual(['', [], []]);
    thread.takeBack(state().outbox[0].id);
    expect([thread.draft.value, thread.files.files.value.map(({ part }) => part.attachment)]).toEqual(['look', [attachment]]);
    server.fault = null;
    thread.write('');
    thread.sendDraft(); // files alone are a message
    await settle(20);
    expect(server.seen('POST', /messages/)[1].body.parts).toEqual([{ type: 'file', attachment }]);
    expect(state().messages[0].fold.parts).toMatchObject([{ type: 'file', attachment, name: 'a.txt' }]);
  });

  test('the first message names model and instructions; later ones change the thread', async () => {
    const server = new FakeServer();
    const { thread, state } = open(server);
    thread.set({ model: 'big' });
    thread.set({ instructions: 'Be short.' });
    thread.send('Hi');
    await settle(20);
    expect(server.seen('POST', /messages/)[0].body).toMatchObject({ model: 'big', instructions: 'Be short.' });
    expect(server.seen('PATCH', /threads/)).toEqual([]);
    thread.set({ model: null });
    await settle(20);
    expect(server.seen('PATCH', /threads/)[0].body).toEqual({ model: null });
    expect(state().info).toMatchObject({ model: null });
    server.append(newest(server), ...START, OUTCOME);
    thread.send('more');
    await settle(20);
    expect(server.seen('POST', /messages/)[1].body).not.toHaveProperty('instructions');
  });

  test('what is wished for while the first message is on its way is not lost', async () => {
    const server = new FakeServer();
    server.fault = ({ method }) => (method === 'POST' ? refusal(503, 'SHUTTING_DOWN') : undefined);
    const { thread } = open(server);
    thread.send('Hi');
    await settle(20);
    thread.set({ model: 'big' });
    server.fault = null;
    await settle(10_000);
    expect(server.seen('POST', /messages/).at(-1)?.body).not.toHaveProperty('model');
    expect(server.seen('PATCH', /threads/).map(({ body }) => body)).toEqual([{ model: 'big', instructions: null }]);
  });
});

describe('F1 F3 following', () => {
  test('O2 P01 P08 a clean end without an outcome is a drop, and no message appears for it', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.append(newest(server), delta('a'));
    await settle(20);
    server.close();
    await settle(20);
    expect(thread.connection.value.shown).toBe('reconnecting');
    expect(lastAnswer(state()).turn.state).toBe('running');
    await settle(1_000);
    expect(thread.connection.value.shown).toBe('quiet');
    const [, again] = server.seen('GET', /streams/);
    expect(again.headers.get('Last-Event-ID')).toBe(`${newest(server)}:4`);
    server.append(newest(server), delta('b'), OUTCOME);
    await settle(20);
    expect(lastText(state())).toBe('ab');
    expect(state().messages).toHaveLength(2);
  });

  test('P14 the cursor counts what was applied, though nothing is drawn', async () => {
    const server = new FakeServer();
    const { state } = await running(server);
    const shown = state();
    server.append(newest(server), delta('a'), delta('b'));
    await settle(0);
    expect(state()).toBe(shown); // no frame yet
    server.cut();
    await settle(600);
    expect(server.seen('GET', /streams/)[1].headers.get('Last-Event-ID')).toBe(`${newest(server)}:5`);
    expect(lastText(state())).toBe('ab');
  });

  test('F2 a connection without bytes is replaced, one with beats is not', async () => {
    const server = new FakeServer();
    await running(server);
    for (let i = 0; i < 24; i++) {
      server.beat();
      await settle(5_000);
    }
    expect(server.seen('GET', /streams/)).toHaveLength(1);
    await settle(8_000);
    expect(server.seen('GET', /streams/)).toHaveLength(2);
    expect(server.readerCount).toBe(1);
  });

  test('F3 one connection: waking, following and switching leave no second one', async () => {
    const server = new FakeServer();
    const { thread } = await running(server);
    await settle(9_000);
    for (const reason of /** @type {const} */ (['visible', 'pageshow', 'online', 'focus', 'resume'])) {
      thread.wake(reason);
      await settle(10);
    }
    expect(server.readerCount).toBe(1);
    expect(server.seen('GET', /streams/)).toHaveLength(2);
    thread.leave();
    await settle(10);
    expect(server.readerCount).toBe(0);
    await settle(60_000);
    expect(server.seen('GET', /streams/)).toHaveLength(2);
  });

  test('F1 P24 frozen and woken it goes on, also when the turn ended meanwhile', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.append(newest(server), delta('a'));
    await settle(20);
    thread.hidden();
    thread.freeze();
    await settle(300_000);
    expect(server.readerCount).toBe(0);
    server.append(newest(server), delta('b'), OUTCOME);
    thread.wake('resume');
    thread.wake('visible');
    await settle(20);
    expect(lastText(state())).toBe('ab');
    expect(ended(lastAnswer(state()).turn)).toBe(true);
  });

  test('P04 a stream that is gone: the thread is loaded, its history shown, and no more is asked', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.fault = ({ path }) => (path.includes('streams') ? refusal(404, 'STREAM_NOT_FOUND') : undefined);
    server.cut();
    await settle(1_000);
    const asked = server.requests.length;
    await settle(300_000);
    expect(server.requests.length).toBe(asked);
    expect(thread.connection.value.shown).toBe('lost');
    expect(state().messages).toHaveLength(2);
  });

  test('a page of somebody else in place of the stream is a failure, not an end', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.fault = ({ path }) => (path.includes('streams') ? new Response('<h1>Sign in to the hotel</h1>', { headers: { 'Content-Type': 'text/html' } }) : undefined);
    server.cut();
    await settle(3_000);
    expect(thread.connection.value.shown).toBe('reconnecting');
    server.fault = null;
    server.append(newest(server), delta('a'), OUTCOME);
    await settle(6_000);
    expect(lastText(state())).toBe('a');
  });

  test('L9 an outcome without an id ends the turn; the next load has the last word', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.raw(`data: ${JSON.stringify({ ...OUTCOME, outcome: 'failed', code: 'STORE_FAILED' })}\n\n`);
    await settle(20);
    expect(lastAnswer(state()).fold.outcome.code).toBe('STORE_FAILED');
    expect(server.readerCount).toBe(0);
    await settle(2_000);
    server.append(newest(server), delta('a'), OUTCOME);
    Object.assign([...server.streams.values()][0].turn, { parts: [{ type: 'text', id: 'p', text: 'a', state: 'done' }] });
    thread.wake('visible');
    await settle(20);
    expect(lastAnswer(state()).fold.outcome.code).toBe('FINISHED');
  });

  test('F1 a thread that cannot be loaded yet is loaded later', async () => {
    const server = new FakeServer();
    const { thread: { id } } = await running(server);
    server.fault = () => json(502, '<html>');
    const { thread, state } = open(server, { id, fresh: false });
    await settle(10_000);
    expect(thread.connection.value.shown).toBe('reconnecting');
    expect(state().phase).toBe('loading');
    server.fault = null;
    await settle(6_000);
    expect(state()).toMatchObject({ phase: 'ready', live: { turn: { state: 'running' } } });
  });

  test('a thread nobody knows is said to be missing', async () => {
    const { state } = open(new FakeServer(), { fresh: false });
    await settle(20);
    expect(state().phase).toBe('missing');
  });
});

test('F5 signed out in the middle: reading and sending wait, and go on where they were', async () => {
  const server = new FakeServer();
  const { thread, retrier, state } = await running(server);
  server.append(newest(server), delta('a'));
  await settle(20);
  server.fault = () => refusal(401, 'SIGN_IN_REQUIRED');
  server.cut();
  thread.send('two');
  await settle(5_000);
  const asked = server.requests.length;
  await settle(300_000);
  expect(server.requests.length).toBe(asked);
  expect(state().outbox[0]).toMatchObject({ text: 'two', refused: false });
  server.fault = null;
  server.append([...server.streams.keys()][0], delta('b'));
  Object.assign([...server.streams.values()][0].turn, { parts: [{ type: 'text', id: 'p', text: 'ab', state: 'streaming' }], seq: 5 });
  thread.wake('manual');
  retrier.wake();
  await settle(50);
  expect(state().outbox).toEqual([]);
  expect(plainText(state().live.fold)).toBe('ab');
  expect(server.readerCount).toBe(1);
});

describe('C1 stopping', () => {
  test('C1 P17 a running answer is stopped by its stream, also after a reload', async () => {
    const server = new FakeServer();
    const first = await running(server);
    server.append(newest(server), delta('half'));
    Object.assign([...server.streams.values()][0].turn, { parts: [{ type: 'text', id: 'p', text: 'half', state: 'streaming' }], seq: 4 });
    const second = open(server, { id: first.thread.id, fresh: false });
    await settle(20);
    void second.thread.stop(lastAnswer(second.state()).id);
    await settle(20);
    for (const page of [first, second]) {
      expect(lastAnswer(page.state()).turn.state).toBe('cancelled');
      expect(lastText(page.state())).toBe('half');
      expect(page.state().stopping).toEqual([]);
    }
    const asked = server.requests.length;
    await settle(60_000);
    expect(server.requests.length).toBe(asked); // C4: nobody reconnects to it
  });

  test('C1 a stop whose response is lost is made again; it is shown until the turn ends', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    server.fault = ({ method }) => { if (method === 'DELETE') throw new TypeError('Failed to fetch'); };
    const answer = lastAnswer(state()).id;
    void thread.stop(answer);
    void thread.stop(answer);
    await settle(3_000);
    expect(state().stopping).toEqual([answer]);
    server.fault = null;
    await settle(6_000);
    expect(lastAnswer(state()).turn.state).toBe('cancelled');
    expect(state().stopping).toEqual([]);
  });

  test('C1 T4 a waiting message is removed from the queue', async () => {
    const server = new FakeServer();
    const { thread, state } = await running(server);
    thread.send('two');
    await settle(20);
    void thread.stop(lastAnswer(state()).id);
    await settle(50);
    expect(lastAnswer(state()).turn.state).toBe('cancelled');
    expect(state().live.turn.state).toBe('running');
    expect(server.readerCount).toBe(1);
  });
});

test('F3 M3 P03 P09 P12 any cuts, closes, recoveries, delays and wakings end with the text of the log', async () => {
  const move = fc.record({
    kind: fc.constantFrom('text', 'text', 'text', 'cut', 'close', 'pass', 'wake', 'freeze', 'recover', 'slow', 'break', 'mend', 'load'),
    size: fc.nat({ max: 20 }),
  });
  await fc.assert(fc.asyncProperty(fc.array(move, { maxLength: 40, size: 'max' }), async (moves) => {
    const server = new FakeServer();
    const page = await running(server);
    const { turn } = [...server.streams.values()][0];
    let text = '';
    const say = (/** @type {string} */ value) => {
      server.append(turn.stream, delta(value));
      text += value;
      // What a snapshot of now says.
      turn.parts = [{ type: 'step-start' }, { type: 'text', id: 'p', text, state: 'streaming' }];
      turn.seq = server.streams.get(turn.stream).events.length;
    };
    for (const { kind, size } of moves) {
      if (kind === 'text') for (let i = 0; i <= size; i++) say(['|', ' ', 'ab', '\n', '😀'][i % 5]);
      if (kind === 'cut') server.cut();
      if (kind === 'close') server.close();
      if (kind === 'pass') await settle(size * 700);
      if (kind === 'wake') page.thread.wake(/** @type {any} */ (['online', 'visible', 'resume', 'focus'][size % 4]));
      if (kind === 'freeze') page.thread.freeze();
      if (kind === 'recover' && text) {
        server.supersede(turn.stream, structuredClone(turn.parts));
        turn.seq = 1;
      }
      if (kind === 'slow') server.fault = () => new Promise((resolve) => { setTimeout(resolve, size * 150); });
      if (kind === 'break') server.fault = () => { throw new TypeError('Failed to fetch'); };
      if (kind === 'mend') server.fault = null;
      if (kind === 'load') page.thread.enter();
      await settle(size);
    }
    server.fault = null;
    await settle(4_000);
    page.thread.wake('visible');
    await settle(4_000);
    server.append(turn.stream, OUTCOME);
    turn.parts = [{ type: 'step-start' }, { type: 'text', id: 'p', text, state: 'done' }];
    await settle(20_000);
    expect(lastText(page.state())).toBe(text);
    expect(ended(lastAnswer(page.state()).turn)).toBe(true);
    expect(server.readerCount).toBe(0);
  }), { numRuns: 150 });
}, 120_000);
