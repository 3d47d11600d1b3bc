import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import vectors from '../../../tests/vectors/fold.json';
import { EMPTY_FOLD, applyEvent, foldFrom } from '../src/fold.js';

/** @param {any[]} events */
const fold = (events, from = EMPTY_FOLD) => events.reduce(applyEvent, from);

describe('M1 M3 S4 the vectors that bind both reducers', () => {
  test.each(vectors.map((vector) => [vector.name, vector]))('%s', (_, vector) => {
    const result = fold(vector.events);
    expect(result.parts).toEqual(vector.parts);
    expect(result.status?.state ?? null).toBe(vector.status);
    expect(result.outcome?.outcome ?? null).toBe(vector.outcome);
  });
});

test('a part that did not change keeps its identity, and an event without effect changes nothing', () => {
  const before = fold([
    { type: 'text-start', id: 'a' }, { type: 'text-end', id: 'a' }, { type: 'text-start', id: 'b' },
  ]);
  const after = applyEvent(before, { type: 'text-delta', id: 'b', delta: 'x' });
  expect(after.parts[0]).toBe(before.parts[0]);
  expect(after.parts[1]).not.toBe(before.parts[1]);
  expect(applyEvent(after, { type: 'text-delta', id: 'a', delta: 'late' })).toBe(after);
});

test('a value a tool returned is kept, also where it is false', () => {
  const result = fold([
    { type: 'tool-input-available', toolCallId: 'c', toolName: 'ask', input: false },
    { type: 'tool-output-available', toolCallId: 'c', output: false, at: 1 },
  ]);
  expect(result.parts[0]).toMatchObject({ input: false, output: false, state: 'output-available' });
});

test('M1 M3 any deltas, rich in repeats, give their concatenation', () => {
  const piece = fc.oneof(
    fc.constantFrom('|', ' ', '\n', '||', '-', 'ab', 'a', '', '\ud83d', '\ude00', '```'), fc.string());
  fc.assert(fc.property(fc.array(piece, { maxLength: 200 }), (deltas) => {
    const result = fold([
      { type: 'text-start', id: 'p' }, ...deltas.map((delta) => ({ type: 'text-delta', id: 'p', delta })),
    ]);
    expect(result.parts).toEqual([{ type: 'text', id: 'p', text: deltas.join(''), state: 'streaming' }]);
  }));
});

test('M2 L7 a snapshot taken anywhere and the events after it give the same parts', () => {
  for (const vector of vectors) {
    vector.events.forEach((_, cut) => {
      const head = fold(vector.events.slice(0, cut));
      const snapshot = JSON.parse(JSON.stringify(head.parts));
      const joined = fold(vector.events.slice(cut), foldFrom(snapshot, { status: head.status }));
      // What was withdrawn before the cut is unknown to the snapshot; servers do not use its ids again.
      if (!vector.events.slice(0, cut).some(({ type }) => type === 'reset-step')) {
        expect(joined.parts).toEqual(vector.parts);
      }
    });
  }
});

test('usage is the sum of the steps', () => {
  const result = fold([
    { type: 'finish-step', finishReason: 'stop', usage: { inputTokens: 1, outputTokens: 2 } },
    { type: 'finish-step', finishReason: 'stop' },
    { type: 'finish-step', finishReason: 'stop', usage: { inputTokens: 3, cachedTokens: 4 } },
  ]);
  expect(result.usage).toEqual({ inputTokens: 4, outputTokens: 2, cachedTokens: 4 });
});

test('M3 a long answer costs the same for each delta', () => {
  const count = 200_000;
  let result = applyEvent(EMPTY_FOLD, { type: 'text-start', id: 'p' });
  for (let i = 0; i < count; i++) result = applyEvent(result, { type: 'text-delta', id: 'p', delta: '12345' });
  expect(/** @type {any} */ (result.parts[0]).text.length).toBe(5 * count);
}, 5_000);
