import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { childrenOf, endOf, rewriting, shownPath } from '../src/branches.js';
import { accept, branch, choose, emptyThread, enqueue, informed, merge } from '../src/thread_state.js';

/** @param {string} id @param {string|null} parent @returns {any} */
const message = (id, parent) => ({ id, parent, role: id.startsWith('q') ? 'user' : 'assistant', fold: { parts: [] }, turn: null });

// q1 -> a1 -> q2 -> a2, a second answer a1b -> q3 -> a3, and another beginning q4 -> a4
const TREE = [
  message('q1', null), message('a1', 'q1'), message('q2', 'a1'), message('a2', 'q2'), message('a1b', 'q1'), message('q3', 'a1b'), message('a3', 'q3'),
  message('q4', null), message('a4', 'q4'),
];
/** @param {any[]} messages */
const ids = (messages) => messages.map(({ id }) => id);
/** @param {any} entry */
const outgoing = (entry) => ({ id: 'new', text: 'x', during: 'queue', error: null, refused: false, ...entry });

describe('F8 branches', () => {
  test('versions of a message stand in one place, in the order they were made', () => {
    const children = childrenOf(TREE);
    expect(ids(/** @type {any} */ (children.get('q1')))).toEqual(['a1', 'a1b']);
    expect(ids(/** @type {any} */ (children.get(null)))).toEqual(['q1', 'q4']);
    expect(children.get('a2')).toBe(undefined);
  });

  test('T4 a new version interrupts what is written below it, takes the place of what waits, and leaves the rest alone', () => {
    const turn = (/** @type {string} */ state) => ({ state, stream: 's', model: null });
    const live = { ...message('a5', 'q5'), turn: turn('running') };
    const tree = [...TREE, message('q5', 'a3'), live, message('q6', 'a5'), { ...message('a6', 'q6'), turn: turn('queued') }];
    const state = /** @type {any} */ ({ messages: tree, live });
    expect(rewriting(state, 'q6')).toEqual({ during: 'queue', replaces: 'q6' });
    for (const above of ['q5', 'q3', 'q1']) expect(rewriting(state, above)).toEqual({ during: 'interrupt' });
    for (const beside of ['q2', 'q4']) expect(rewriting(state, beside)).toEqual({ during: 'queue' });
    expect(rewriting({ ...state, live: null }, 'q5')).toEqual({ during: 'queue' });
  });

  test('the end of the newest branch through a message', () => {
    expect([endOf(TREE, 'q1'), endOf(TREE, 'a1'), endOf(TREE, 'q3'), endOf(TREE, 'a4')]).toEqual(['a3', 'a2', 'a3', 'a4']);
    const circle = [message('a', 'b'), message('b', 'a')];
    expect(['a', 'b']).toContain(endOf(circle, 'a'));
  });

  test('what is on its way is shown where it will stand', () => {
    /** @param {any} entry */
    const path = (entry) => ids(shownPath(TREE, 'a2', entry ? [outgoing(entry)] : []));
    expect(path(null)).toEqual(['q1', 'a1', 'q2', 'a2']);
    expect(path({})).toEqual(['q1', 'a1', 'q2', 'a2']); // after the selected leaf
    expect(path({ parent: 'a1' })).toEqual(['q1', 'a1']); // q2 written anew
    expect(path({ parent: null })).toEqual([]); // q1 written anew
    expect(path({ question: 'q1', text: '' })).toEqual(['q1']); // another answer
  });

  test('every message is on the branch that is selected by it', () => {
    const tree = fc.array(fc.nat(), { minLength: 1, maxLength: 40 }).map((picks) => picks.reduce((messages, pick, index) => {
      const parent = pick % (messages.length + 1);
      return [...messages, message(`m${index}`, parent === messages.length ? null : messages[parent].id)];
    }, /** @type {any[]} */ ([])));
    fc.assert(fc.property(tree, fc.nat(), (messages, pick) => {
      const { id } = messages[pick % messages.length];
      expect(ids(branch(messages, endOf(messages, id)))).toContain(id);
    }));
  });
});

describe('F8 selecting', () => {
  const info = { id: 't', title: 'T', createdAt: 1, updatedAt: 1, version: 1, state: /** @type {const} */ ('idle'), leaf: 'a2' };
  const snapshot = { thread: info, messages: [
    { id: 'q1', parent: null, role: /** @type {const} */ ('user'), createdAt: 1, parts: [] },
    ...['a1', 'a2'].map((id) => ({ id, parent: 'q1', role: /** @type {const} */ ('assistant'), createdAt: 2, parts: [],
      turn: { state: /** @type {const} */ ('finished'), stream: `s-${id}`, cursor: null, status: null, outcome: null } })),
  ] };
  const loaded = () => merge(emptyThread('t', 'loading'), snapshot, 0);

  test('a branch stays selected, whatever an older word of the server says', () => {
    const chosen = choose(loaded(), 'a1');
    expect(chosen).toMatchObject({ leaf: 'a1', choosing: 'a1' });
    expect(merge(chosen, snapshot, 0).leaf).toBe('a1');
    const known = informed(chosen, { ...info, leaf: 'a1' });
    expect(known).toMatchObject({ leaf: 'a1', choosing: null });
    expect(merge(known, snapshot, 0).leaf).toBe('a2'); // another device selected it
    expect(informed(chosen, info).choosing).toBe('a1');
    const same = loaded();
    expect(choose(same, 'a2')).toBe(same);
  });

  test('what is accepted is selected, a new answer beside the old ones', () => {
    const accepted = { thread: 't', message: 'q1', turn: 'a3', stream: 's9', cursor: 's9:0', state: /** @type {const} */ ('running'), repeated: false };
    const wished = enqueue(choose(loaded(), 'a1'), outgoing({ id: 'k', question: 'q1', text: '' }));
    const state = accept(wished, accepted, 5, 'k');
    expect(state).toMatchObject({ leaf: 'a3', choosing: null, outbox: [], live: { id: 'a3', parent: 'q1' } });
    expect(state.messages).toHaveLength(4);
    const again = accept(enqueue(state, outgoing({ id: 'k', question: 'q1', text: '' })), { ...accepted, repeated: true }, 6, 'k');
    expect(again.messages).toHaveLength(4);
  });
});
