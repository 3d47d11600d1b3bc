import { describe, expect, test } from 'vitest';

import {
  accept, applyEvent, branch, changeOutgoing, choose, emptyThread, ended, enqueue, find, informed, merge, missing, plainText, setStopping, target,
} from '../src/thread_state.js';

const OUTCOME = { type: 'outcome', outcome: 'failed', code: 'MODEL_EOF', text: 'Cut', retryable: true, at: 1 };

/** @param {any} [turn] */
const snapshot = (turn, parts = [], version = 1) => ({
  thread: { id: 't', title: 'T', createdAt: 1, updatedAt: 1, version, state: 'running', leaf: 'a' },
  messages: [
    { id: 'q', parent: null, role: 'user', createdAt: 1, parts: [{ type: 'text', text: 'Hi' }] },
    { id: 'a', parent: 'q', role: 'assistant', createdAt: 2, parts,
      turn: { state: 'running', stream: 's1', cursor: 's1:3', model: 'm', status: null, outcome: null, ...turn } },
  ],
});
const text = (value, state = 'streaming') => [{ type: 'text', id: 'p', text: value, state }];
const delta = (value) => ({ type: 'text-delta', id: 'p', delta: value });

/** @param {any} state @param {number} from @param {any[]} events */
const follow = (state, from, events, stream = 's1') =>
  events.reduce((sum, event, i) => applyEvent(sum, event, { stream, seq: from + i }), state);

/** @param {any} state */
const answerText = (state, id = 'a') => plainText(find(state, id).fold);

describe('L7 P12 M2 snapshot and stream', () => {
  test('L7 T2 a snapshot of a running turn is exact for its cursor', () => {
    const state = merge(emptyThread('t', 'loading'), snapshot({}, text('abc')), 0);
    expect(state.live).toMatchObject({ id: 'a', cursor: { stream: 's1', seq: 3 } });
    expect(answerText(follow(state, 4, [delta('d')]))).toBe('abcd');
  });

  test('M2 P12 a lagging snapshot rewinds nothing, a newer one is taken', () => {
    const state = follow(merge(emptyThread('t', 'loading'), snapshot({}, text('abc')), 0), 4, [delta('d'), delta('e')]);
    const late = merge(state, snapshot({}, text('abc')), 0);
    expect(answerText(late)).toBe('abcde');
    expect(late.live.cursor).toEqual({ stream: 's1', seq: 5 });
    const newer = merge(state, snapshot({ cursor: 's1:7' }, text('abcdefg')), 0);
    expect(answerText(newer)).toBe('abcdefg');
    expect(newer.live.cursor.seq).toBe(7);
  });

  test('M2 a snapshot from before a change that is confirmed changes nothing of it', () => {
    const before = merge(emptyThread('t', 'loading'), snapshot({}, text('abc')), 0);
    const changed = informed(choose(before, 'q'), { ...before.info, leaf: 'q', title: 'New', version: 2 });
    expect(changed).toMatchObject({ leaf: 'q', choosing: null });
    expect(merge(changed, snapshot({}, text('abc')), 0)).toMatchObject({ leaf: 'q', info: { title: 'New' } });
    expect(merge(changed, snapshot({}, text('abc'), 3), 0)).toMatchObject({ leaf: 'a', info: { title: 'T' } });
  });

  test('M2 O2 an outcome is final for lagging snapshots, and learned from a newer one', () => {
    const running = merge(emptyThread('t', 'loading'), snapshot({}, text('abc')), 0);
    const over = follow(running, 4, [OUTCOME]);
    expect(ended(find(over, 'a').turn)).toBe(true);
    expect(over.live).toBe(null);
    expect(find(merge(over, snapshot({}, text('abc')), 0), 'a').fold.outcome.code).toBe('MODEL_EOF');
    const learned = merge(running, snapshot({ state: 'failed', cursor: null, outcome: OUTCOME }, text('abcd', 'done')), 0);
    expect(find(learned, 'a').fold.outcome.code).toBe('MODEL_EOF');
    expect(answerText(learned)).toBe('abcd');
    expect(learned.live).toBe(null);
  });

  test('L9 an outcome that is not in the log gives way to the next snapshot', () => {
    const running = merge(emptyThread('t', 'loading'), snapshot({}, text('abc')), 0);
    const broken = applyEvent(running, { ...OUTCOME, code: 'STORE_FAILED' }, null);
    expect(find(broken, 'a').fold.outcome.code).toBe('STORE_FAILED');
    const after = merge(broken, snapshot({ cursor: 's1:4' }, text('abcd')), 0);
    expect(find(after, 'a').fold.outcome).toBe(null);
    expect(after.live.id).toBe('a');
  });

  test('R3 a successor replaces the parts and is what is followed and stopped', () => {
    const running = merge(emptyThread('t', 'loading'), snapshot({}, text('abc')), 0);
    const handed = follow(running, 4, [{ type: 'superseded', stream: 's2' }]);
    expect(handed.live).toMatchObject({ turn: { stream: 's2' }, cursor: { stream: 's2', seq: 0 } });
    const after = follow(handed, 1, [{ type: 'snapshot', parts: text('ab') }, delta('X')], 's2');
    expect(answerText(after)).toBe('abX');
    expect(after.live.cursor).toEqual({ stream: 's2', seq: 2 });
  });

  test('what did not change keeps its identity', () => {
    const over = { state: 'finished', cursor: null, outcome: { ...OUTCOME, outcome: 'finished', code: 'FINISHED' } };
    const one = merge(emptyThread('t', 'loading'), snapshot(over, text('abc', 'done')), 0);
    const two = merge(one, snapshot(over, text('abc', 'done'), 2), 0);
    expect(two.messages[0]).toBe(one.messages[0]);
    expect(two.messages[1]).toBe(one.messages[1]);
    expect(two.info.version).toBe(2);
  });
});

describe('T5 messages on their way', () => {
  const outgoing = { id: 'm1', text: 'Hello', during: /** @type {const} */ ('queue'), error: null, refused: false };
  const accepted = { thread: 't', message: 'm1', turn: 'a1', stream: 's9', cursor: 's9:0', state: /** @type {const} */ ('running'), repeated: false };

  test('T5 F6 an accepted message becomes part of the thread under its id, once', () => {
    let state = enqueue(emptyThread('t', 'new'), outgoing);
    state = accept(state, accepted, 5);
    state = accept(state, accepted, 6);
    expect(state.outbox).toEqual([]);
    expect(state.messages.map(({ id, parent }) => [id, parent])).toEqual([['m1', null], ['a1', 'm1']]);
    expect(state).toMatchObject({ phase: 'ready', leaf: 'a1', live: { id: 'a1', cursor: { stream: 's9', seq: 0 } } });
  });

  test('P12 a snapshot asked for before the acceptance does not take the message away, a later one may', () => {
    const before = merge(emptyThread('t', 'loading'), snapshot({ state: 'failed', cursor: null, outcome: OUTCOME }), 0);
    const state = accept(enqueue(before, outgoing), accepted, 5);
    const stale = merge(state, snapshot({ state: 'failed', cursor: null, outcome: OUTCOME }), 0);
    expect(branch(stale.messages, stale.leaf).map(({ id }) => id)).toEqual(['q', 'a', 'm1', 'a1']);
    expect(stale.live.id).toBe('a1');
    const later = merge(state, snapshot({ state: 'failed', cursor: null, outcome: OUTCOME }), 1);
    expect(later.messages.map(({ id }) => id)).toEqual(['q', 'a']);
  });

  test('T5 a snapshot that has the message ends its sending', () => {
    const state = enqueue(emptyThread('t', 'loading'), { ...outgoing, id: 'q' });
    expect(merge(state, snapshot(), 0).outbox).toEqual([]);
  });

  test('O3 the newest outcome is not the last of the branch once a newer message is accepted', () => {
    const failed = merge(emptyThread('t', 'loading'), snapshot({ state: 'failed', cursor: null, outcome: OUTCOME }), 0);
    expect(branch(failed.messages, failed.leaf).at(-1).id).toBe('a');
    const sending = enqueue(failed, outgoing);
    expect(branch(sending.messages, sending.leaf).at(-1).id).toBe('a'); // not accepted yet
    const sent = accept(sending, accepted, 5);
    expect(branch(sent.messages, sent.leaf).at(-1).id).toBe('a1');
  });

  test('a question sent again stands beside the failed one', () => {
    const failed = merge(emptyThread('t', 'loading'), snapshot({ state: 'failed', cursor: null, outcome: OUTCOME }), 0);
    const state = accept(enqueue(failed, { ...outgoing, parent: null }), accepted, 5);
    expect(branch(state.messages, state.leaf).map(({ id }) => id)).toEqual(['m1', 'a1']);
    expect(state.messages).toHaveLength(4);
  });

  test('T4 the running turn is followed first, then the queue in order', () => {
    let state = accept(enqueue(emptyThread('t', 'new'), outgoing), { ...accepted, state: 'queued' }, 5);
    state = accept(enqueue(state, { ...outgoing, id: 'm2' }), { ...accepted, message: 'm2', turn: 'a2', stream: 's10', cursor: 's10:0', state: 'queued' }, 6);
    expect(target(state).id).toBe('a1');
    state = follow(state, 1, [{ type: 'start', model: 'x' }, { type: 'text-start', id: 'p' }, delta('1'), OUTCOME], 's9');
    expect(state.live).toMatchObject({ id: 'a2', cursor: { stream: 's10', seq: 0 } });
    expect(answerText(state, 'a1')).toBe('1');
    state = follow(state, 1, [OUTCOME], 's10');
    expect(state.live).toBe(null);
  });

  test('a thread the server does not know keeps what was to be sent to it', () => {
    expect(missing(emptyThread('t', 'loading')).phase).toBe('missing');
    const state = missing(enqueue(emptyThread('t', 'loading'), outgoing));
    expect(state).toMatchObject({ phase: 'new', outbox: [outgoing] });
    expect(changeOutgoing(state, 'm1', { refused: true }).outbox[0].refused).toBe(true);
  });

  test('C1 what is being stopped is so until it ends', () => {
    const running = setStopping(merge(emptyThread('t', 'loading'), snapshot(), 0), 'a', true);
    expect(merge(running, snapshot(), 0).stopping).toEqual(['a']);
    expect(follow(running, 4, [OUTCOME]).stopping).toEqual([]);
    expect(merge(running, snapshot({ state: 'cancelled', cursor: null, outcome: OUTCOME }), 0).stopping).toEqual([]);
  });
});

test('a branch survives unknown leaves and circles', () => {
  const message = (id, parent) => /** @type {any} */ ({ id, parent });
  expect(branch([message('a', 'b'), message('b', 'a')], 'b').map(({ id }) => id)).toEqual(['a', 'b']);
  expect(branch([message('a', null), message('b', 'a')], 'zz').map(({ id }) => id)).toEqual(['a', 'b']);
  expect(branch([], null)).toEqual([]);
});
