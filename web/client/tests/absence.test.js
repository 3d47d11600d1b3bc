// @vitest-environment node

import { beforeEach, describe, expect, test, vi } from 'vitest';

import { createAbsence } from '../src/absence.js';

describe('whoever comes back is told that the answer went on', () => {
  /** @type {number|null|undefined} */
  let kept;
  const keep = (/** @type {number|null} */ at) => { kept = at; };

  beforeEach(() => {
    vi.useFakeTimers({ now: 1_000_000 });
    kept = undefined;
    return () => vi.useRealTimers();
  });

  test('an absence counts from its first moment to the first byte', () => {
    const absence = createAbsence(null, keep);
    absence.deaf();
    vi.setSystemTime(1_010_000);
    absence.deaf(); // the same absence
    vi.setSystemTime(1_015_000);
    absence.heard();
    expect(absence.away.value).toEqual({ from: 1_000_000, to: 1_015_000 });
    expect(kept).toBe(null);
    vi.setSystemTime(1_100_000);
    absence.heard(); // was not deaf meanwhile
    expect(absence.away.value).toEqual({ from: 1_000_000, to: 1_015_000 });
  });

  test('a short one is not worth a word', () => {
    const absence = createAbsence(null, keep);
    absence.deaf();
    vi.setSystemTime(1_014_999);
    absence.heard();
    expect(absence.away.value).toBe(null);
  });

  test('a page that goes keeps the moment its absence began, and the next one counts on', () => {
    const absence = createAbsence(null, keep);
    absence.deaf();
    vi.setSystemTime(1_005_000);
    absence.gone();
    expect(kept).toBe(1_000_000);

    vi.setSystemTime(1_060_000);
    const next = createAbsence(kept ?? null, keep);
    next.heard();
    expect(next.away.value).toEqual({ from: 1_000_000, to: 1_060_000 });
    expect(kept).toBe(null);
  });

  test('one that listens keeps the moment it goes', () => {
    const absence = createAbsence(null, keep);
    vi.setSystemTime(1_007_000);
    absence.gone();
    expect(kept).toBe(1_007_000);
  });

  test('a restart is told of whether anybody was away or not', () => {
    const absence = createAbsence(null, keep);
    absence.restarted();
    expect(absence.away.value).toEqual({ from: 1_000_000, to: 1_000_000, restarted: true });
  });
});
