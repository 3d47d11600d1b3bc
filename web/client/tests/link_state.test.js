import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { backoffMs, emptyBackoffMs } from '../src/backoff.js';
import { EMPTY_FOLD, applyEvent, foldFrom } from '../src/fold.js';
import { INITIAL, shown, step } from '../src/link_state.js';
import { ANSWER_LIMIT_MS, HEARTBEAT_MS, HIDDEN_GRACE_MS, LIVENESS_MS, deadline } from '../src/link_transitions.js';

/** Drives the machine and remembers what it asked for. */
class Driver {
  constructor(random = 0.5) {
    this.state = INITIAL;
    this.now = 1_000_000;
    this.random = random;
    /** @type {any[]} */
    this.actions = [];
  }

  /** @param {any} event */
  send(event) {
    const { state, actions } = step(this.state, { generation: this.state.generation, ...event, now: this.now, random: this.random });
    this.state = state;
    this.actions.push(...actions);
    return actions;
  }

  /** @param {string} type */
  count(type) { return this.actions.filter((action) => action.type === type).length; }

  get applied() { return this.actions.filter(({ type }) => type === 'apply').map(({ event }) => event); }

  follow(stream = 's1', seq = 0) { return this.send({ type: 'follow', target: { stream, seq } }); }

  open(stream = 's1', seq = 0) {
    this.follow(stream, seq);
    this.send({ type: 'opened' });
    return this;
  }

  /** @param {number} seq @param {any} [event] */
  frame(seq, event = { type: 'text-delta', id: 'p', delta: String(seq) }, stream = this.state.stream) {
    return this.send({ type: 'frame', id: `${stream}:${seq}`, event });
  }

  /** Lets time pass as a timer would see it. @param {number} ms */
  pass(ms) {
    const end = this.now + ms;
    for (let at = deadline(this.state); at !== null && at <= end; at = deadline(this.state)) {
      this.now = Math.max(this.now, at);
      this.send({ type: 'tick' });
    }
    this.now = end;
  }
}

const OUTCOME = { type: 'outcome', outcome: 'finished', code: 'FINISHED', text: '', retryable: false };

describe('F3 following', () => {
  test('F3 F1 it connects after the cursor and applies in order', () => {
    const link = new Driver();
    expect(link.follow('s1', 7).at(-1)).toMatchObject({ type: 'connect', stream: 's1', seq: 7 });
    link.send({ type: 'opened' });
    link.frame(8);
    link.frame(9);
    expect(link.applied.map(({ delta }) => delta)).toEqual(['8', '9']);
    expect(link.state.seq).toBe(9);
  });

  test('F3 duplicates are dropped and a hole loads the thread', () => {
    const link = new Driver().open();
    link.frame(1);
    link.frame(1);
    expect(link.applied).toHaveLength(1);
    link.frame(3);
    expect(link.applied).toHaveLength(1);
    expect(link.state.phase).toBe('loading');
    expect(link.count('load')).toBe(1);
    link.send({ type: 'loaded', target: { stream: 's1', seq: 5 } });
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', stream: 's1', seq: 5 });
  });

  test('L6 a gap and an unreadable frame load the thread', () => {
    for (const event of [null, { type: 'error', code: 'STREAM_RESUME_GAP' }]) {
      const link = new Driver().open();
      link.frame(1, event);
      expect(link.state.phase).toBe('loading');
      expect(link.applied).toEqual([]);
    }
  });

  test('F3 late frames of a replaced connection are dropped', () => {
    const link = new Driver().open();
    const old = link.state.generation;
    link.frame(1);
    link.send({ type: 'failed', code: 'NETWORK' });
    link.pass(1_000);
    link.send({ type: 'opened' });
    expect(link.state.phase).toBe('open');
    link.send({ type: 'frame', generation: old, id: 's1:2', event: { type: 'text-delta', id: 'p', delta: 'late' } });
    link.send({ type: 'closed', generation: old });
    expect(link.applied).toHaveLength(1);
    expect(link.state).toMatchObject({ phase: 'open', seq: 1 });
  });

  test('F3 a frame after the outcome, and a following of the same stream, change nothing', () => {
    const link = new Driver().open();
    const live = link.state;
    link.follow('s1', 0);
    expect(link.state).toEqual(live);
    const generation = link.state.generation;
    link.frame(1, OUTCOME);
    link.send({ type: 'frame', generation, id: 's1:2', event: { type: 'text-delta', id: 'p', delta: 'x' } });
    expect(link.applied).toEqual([OUTCOME]);
    expect(link.state).toMatchObject({ phase: 'idle', stream: null });
  });

  test('F3 no position is carried over to another stream', () => {
    const link = new Driver().open('s1', 40);
    expect(link.follow('s2', 0)).toEqual([
      { type: 'abort', generation: expect.any(Number) }, { type: 'timer', at: expect.any(Number) },
      { type: 'connect', generation: link.state.generation, stream: 's2', seq: 0, mode: 'stream' },
    ]);
  });

  test('F3 the same stream never moves back, and jumps ahead with a newer snapshot', () => {
    const link = new Driver().open('s1', 10);
    link.follow('s1', 4);
    expect(link.state.seq).toBe(10);
    link.follow('s1', 14);
    link.frame(14);
    link.frame(15);
    expect(link.applied.map(({ delta }) => delta)).toEqual(['15']);
  });

  test('R3 a superseded stream goes on with its successor', () => {
    const link = new Driver().open();
    link.frame(1);
    link.frame(2, { type: 'superseded', stream: 's2' });
    expect(link.state).toMatchObject({ stream: 's2', seq: 0, phase: 'open' });
    link.frame(1, { type: 'text-delta', id: 'p', delta: 'late' }, 's1');
    link.frame(1, { type: 'snapshot', parts: [] }, 's2');
    link.send({ type: 'closed' });
    link.pass(1_000);
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', stream: 's2', seq: 1 });
    expect(link.applied.map(({ type }) => type)).toEqual(['text-delta', 'superseded', 'snapshot']);
  });

  test('R3 a cursor beyond the end of a sealed stream is handed over by the snapshot', () => {
    const link = new Driver().open('s1', 50);
    link.frame(1, { type: 'snapshot', parts: [] }, 's2');
    expect(link.state).toMatchObject({ phase: 'open', stream: 's2', seq: 1 });
    link.frame(2, undefined, 's3');
    expect(link.state.phase).toBe('loading'); // a stream nobody named
  });

  test('L9 an outcome without an id ends the turn', () => {
    const link = new Driver().open('s1', 3);
    link.send({ type: 'frame', id: null, event: { ...OUTCOME, code: 'STORE_FAILED' } });
    expect(link.actions.at(-1)).toMatchObject({ type: 'apply', cursor: null });
    expect(link.state.phase).toBe('idle');
    const other = new Driver().open();
    other.send({ type: 'frame', id: null, event: { type: 'text-delta', id: 'p', delta: 'x' } });
    expect(other.applied).toEqual([]);
  });
});

describe('F1 reconnecting', () => {
  test('F1 O2 P01 a stream that ends without its outcome was dropped, however cleanly', () => {
    const link = new Driver().open();
    link.frame(1);
    link.send({ type: 'closed' });
    expect(shown(link.state)).toBe('reconnecting');
    link.pass(500);
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', seq: 1 });
  });

  test('F1 it backs off with jitter from 250 ms to 5 s and never gives up', () => {
    for (const random of [0, 0.5, 0.999]) {
      const link = new Driver(random);
      link.follow();
      for (let failures = 1; failures < 200; failures++) {
        link.send({ type: 'failed', code: 'NETWORK' });
        const waitMs = link.state.until - link.now;
        expect(waitMs).toBe(backoffMs(failures, random));
        expect(waitMs).toBeGreaterThanOrEqual(250);
        expect(waitMs).toBeLessThanOrEqual(5_000);
        link.pass(waitMs);
        expect(link.state.phase).toBe('connecting');
      }
    }
    expect(backoffMs(6, 0.99) - backoffMs(6, 0.01)).toBeGreaterThan(4_000);
  });

  test('F1 an event starts the backoff anew, a mere answer does not', () => {
    const link = new Driver().open();
    link.frame(1);
    for (let i = 0; i < 3; i++) {
      link.send({ type: 'failed', code: 'NETWORK' });
      link.pass(5_000);
    }
    expect(link.state.attempt).toBe(3);
    link.send({ type: 'opened' });
    expect(link.state.attempt).toBe(3);
    expect(shown(link.state)).toBe('quiet');
    link.frame(2);
    expect(link.state.attempt).toBe(0);
  });

  test('F1 what the server asks for is heard, up to 5 s', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'refused', status: 503, code: 'SHUTTING_DOWN', retryAfterMs: 60_000 });
    expect(link.state.until - link.now).toBeGreaterThan(3_000);
    expect(link.state.until - link.now).toBeLessThanOrEqual(5_000);
  });

  test('F1 P10 wake signals are joined into one probe', () => {
    const link = new Driver().open();
    link.now += 8_000;
    const before = link.count('connect');
    for (const reason of ['visible', 'pageshow', 'online', 'focus', 'resume']) {
      link.send({ type: 'wake', reason });
      link.now += 10;
    }
    link.send({ type: 'opened' });
    link.send({ type: 'wake', reason: 'online' });
    expect(link.count('connect')).toBe(before + 1);
  });

  test('F1 a wake signal ends a wait at once', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'failed', code: 'NETWORK' });
    expect(link.state.phase).toBe('waiting');
    link.send({ type: 'wake', reason: 'online' });
    expect(link.state).toMatchObject({ phase: 'connecting', attempt: 1 });
  });

  test('F1 a young connection survives a look at another tab, but not a freeze', () => {
    const link = new Driver().open();
    link.now += 3_000;
    link.send({ type: 'hidden' });
    link.now += 1_000;
    link.send({ type: 'wake', reason: 'visible' });
    expect(link.count('connect')).toBe(1);
    link.send({ type: 'freeze' });
    expect(link.state.phase).toBe('paused');
    expect(deadline(link.state)).toBe(null);
    link.send({ type: 'wake', reason: 'resume' });
    expect(link.count('connect')).toBe(2);
  });

  test('F4 a pending first response is not disturbed and costs no retry', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'hidden' });
    for (const reason of ['visible', 'focus', 'online']) link.send({ type: 'wake', reason });
    expect(link.count('connect')).toBe(1);
    expect(link.count('abort')).toBe(0);
    expect(link.state).toMatchObject({ phase: 'connecting', attempt: 0 });
  });

  test('F4 a pending response whose time was over while the machine slept is tried again on waking', () => {
    const link = new Driver();
    link.follow();
    link.now += 3_600_000;
    link.send({ type: 'wake', reason: 'visible' });
    expect(link.state.phase).toBe('waiting');
  });

  test('F7 a hidden page gives its connection back, and takes it up when seen', () => {
    const link = new Driver().open();
    link.send({ type: 'hidden' });
    for (let i = 0; i < 10; i++) {
      link.pass(HIDDEN_GRACE_MS / 10);
      link.send({ type: 'bytes' });
    }
    expect(link.state.phase).toBe('paused');
    link.pass(3_600_000);
    expect(link.count('connect')).toBe(1);
    link.send({ type: 'wake', reason: 'visible' });
    expect(link.state.phase).toBe('connecting');
  });
});

describe('F2 liveness', () => {
  test('F2 P26 bytes keep a silent turn connected', () => {
    const link = new Driver().open();
    for (let i = 0; i < 120; i++) {
      link.pass(HEARTBEAT_MS);
      link.send({ type: 'bytes' });
    }
    expect(link.count('connect')).toBe(1);
    expect(link.count('timer')).toBeLessThan(120); // busy streams set no timers
  });

  test('F2 a dead connection is noticed within 12 s', () => {
    const link = new Driver().open();
    link.pass(4_000);
    link.send({ type: 'bytes' });
    link.pass(LIVENESS_MS - 1);
    expect(link.state.phase).toBe('open');
    link.pass(1);
    expect(link.state.phase).toBe('waiting');
    expect(LIVENESS_MS).toBeLessThanOrEqual(12_000);
  });

  test('F2 P23 the limit leaves room for a late beat', () => {
    expect(LIVENESS_MS).toBeGreaterThanOrEqual(2.4 * HEARTBEAT_MS);
  });

  test('F2 an answer that does not come is given up', () => {
    const link = new Driver();
    link.follow();
    link.pass(ANSWER_LIMIT_MS);
    expect(link.state.phase).toBe('waiting');
    expect(link.count('abort')).toBe(1);
  });
});

describe('P04 nothing to follow', () => {
  test('P04 404 loads the thread and stops where it names the same stream again', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'refused', status: 404, code: 'STREAM_NOT_FOUND' });
    expect(link.state.phase).toBe('loading');
    link.send({ type: 'loaded', target: { stream: 's1', seq: 3 } });
    expect(link.state.phase).toBe('lost');
    link.pass(3_600_000);
    expect(link.count('connect')).toBe(1);
    expect(shown(link.state)).toBe('lost');
  });

  test('P04 404 and a thread where nothing runs is idle; another stream is followed', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'refused', status: 404, code: 'STREAM_NOT_FOUND' });
    link.send({ type: 'loaded', target: null });
    expect(link.state).toMatchObject({ phase: 'idle', attempt: 0 });
    link.follow();
    link.send({ type: 'refused', status: 404, code: 'STREAM_NOT_FOUND' });
    link.send({ type: 'loaded', target: { stream: 's2', seq: 0 } });
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', stream: 's2' });
  });

  test.each([['204', false], ['an empty body', true]])('P04 %s backs off: at most 6 requests in 30 s', (_, opens) => {
    for (const random of [0, 0.5, 0.999]) {
      const link = new Driver(random);
      link.follow();
      for (const end = link.now + 30_000; link.now < end;) {
        if (link.state.phase === 'connecting') {
          if (opens) link.send({ type: 'opened' });
          link.send({ type: opens ? 'closed' : 'nothing' });
        } else if (link.state.phase === 'loading') {
          link.send({ type: 'loaded', target: { stream: 's1', seq: 0 } });
        } else {
          link.pass(50);
        }
      }
      expect(link.count('connect') + link.count('load')).toBeLessThanOrEqual(6);
      expect(link.count('connect')).toBeGreaterThan(3);
    }
    expect(emptyBackoffMs(50, 0)).toBe(10_000);
  });

  test('P04 L4 after 204 the thread is asked at once what became of the turn', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'nothing' });
    expect(link.state.phase).toBe('loading');
    link.send({ type: 'loaded', target: null });
    expect(link.state.phase).toBe('idle');
    link.pass(3_600_000);
    expect(link.count('connect')).toBe(1);
  });

  test('F5 without permission it stops until a person acts', () => {
    const link = new Driver();
    link.follow();
    link.send({ type: 'refused', status: 401, code: 'SIGNED_OUT' });
    link.pass(3_600_000);
    expect(link.state.phase).toBe('blocked');
    expect(link.count('connect')).toBe(1);
    link.send({ type: 'wake', reason: 'manual' });
    expect(link.state.phase).toBe('loading');
  });
});

describe('F1 loading', () => {
  test('F1 L7 a thread that cannot be loaded is tried again, then followed from its cursor', () => {
    const link = new Driver();
    link.send({ type: 'load' });
    expect(shown(link.state)).toBe('loading');
    link.send({ type: 'refused', status: 502, code: 'HTTP' });
    expect(shown(link.state)).toBe('reconnecting');
    link.follow('s1', 0); // the load decides
    link.pass(1_000);
    expect(link.state.phase).toBe('loading');
    link.send({ type: 'loaded', target: { stream: 's1', seq: 9 } });
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', stream: 's1', seq: 9 });
  });

  test('F3 releasing aborts, and what comes after is late', () => {
    const link = new Driver().open();
    const { generation } = link.state;
    link.send({ type: 'release' });
    expect(link.count('abort')).toBe(1);
    link.send({ type: 'frame', generation, id: 's1:1', event: OUTCOME });
    expect(link.applied).toEqual([]);
    expect(deadline(link.state)).toBe(null);
  });

  test('P12 an idle thread is looked at again when the page is seen', () => {
    const link = new Driver();
    link.send({ type: 'load' });
    link.send({ type: 'loaded', target: null });
    link.send({ type: 'wake', reason: 'focus' });
    expect(link.count('load')).toBe(1);
    link.now += 2_000;
    link.send({ type: 'wake', reason: 'visible' });
    link.send({ type: 'wake', reason: 'focus' });
    expect(link.count('load')).toBe(2);
  });
});

// A model of the server: streams of one turn with recoveries between, followed by a link through a
// network that repeats, leaves out, cuts, delays frames of replaced connections and wakes the page.

/** @param {{texts: string[], recoverAfter: number[]}} plan */
function serverLog({ texts, recoverAfter }) {
  const streams = [{ id: 's0', /** @type {any[]} */ events: [{ type: 'text-start', id: 'p' }] }];
  let fold = applyEvent(EMPTY_FOLD, streams[0].events[0]);
  texts.forEach((delta, index) => {
    const event = { type: 'text-delta', id: 'p', delta };
    streams[streams.length - 1].events.push(event);
    fold = applyEvent(fold, event);
    if (!recoverAfter.includes(index)) return;
    const successor = `s${streams.length}`;
    streams[streams.length - 1].events.push({ type: 'superseded', stream: successor });
    streams.push({ id: successor, events: [{ type: 'snapshot', parts: fold.parts }] });
  });
  streams[streams.length - 1].events.push(OUTCOME);
  return streams;
}

const chaos = fc.array(fc.record({
  move: fc.constantFrom('next', 'next', 'next', 'next', 'repeat', 'skip', 'cut', 'close', 'late', 'wake', 'freeze', 'hide', 'pass', 'garble'),
  size: fc.nat({ max: 12 }),
}), { maxLength: 150, size: 'max' });

test('F3 M3 R3 P09 P10 any order of duplicates, holes, cuts, late frames and recoveries gives the text of the log', () => {
  fc.assert(fc.property(
    fc.record({
      texts: fc.array(fc.constantFrom('|', ' ', 'ab', '||', '\n', 'a'), { maxLength: 40, size: 'max' }),
      recoverAfter: fc.array(fc.nat({ max: 39 }), { maxLength: 2 }),
    }), chaos, (plan, moves) => {
      const streams = serverLog(plan);
      const flat = streams.flatMap(({ id, events }) => events.map((event, i) => ({ id: `${id}:${i + 1}`, event })));
      const link = new Driver();
      let fold = EMPTY_FOLD;
      let at = 0; // the server's position on the live connection
      let from = 0; // where the stream begins that it was asked for: no server goes back behind that
      /** @type {number[]} */
      const old = [];
      /** @type {any} */
      let outcome = null;

      /** @param {any} event */
      const send = (event) => {
        for (const action of link.send(event)) {
          if (action.type === 'connect') {
            old.push(action.generation - 1, action.generation - 2);
            at = flat.findIndex(({ id }) => id === `${action.stream}:${action.seq}`) + 1;
            from = flat.findIndex(({ id }) => id === `${action.stream}:1`);
            if (action.seq === 0) at = from;
          }
          if (action.type !== 'apply') continue;
          expect(outcome).toBe(null);
          fold = applyEvent(fold, action.event);
          if (action.event.type === 'outcome') outcome = action.event;
        }
      };
      /** Answers what is pending, as the server would. @param {number} lag */
      const answer = (lag) => {
        if (link.state.phase === 'connecting') send({ type: 'opened' });
        if (link.state.phase !== 'loading') return;
        // A snapshot of some moment: of the past too, then what we hold stays.
        const last = flat.length - 1; // the outcome is not folded: the turn still runs
        const upTo = Math.max(1, last - lag);
        const cursor = flat[upTo - 1].event.type === 'superseded' ? upTo - 1 : upTo;
        const [stream, seq] = flat[cursor - 1].id.split(':');
        const position = flat.findIndex(({ id }) => id === `${link.state.stream}:${link.state.seq}`);
        if (cursor - 1 > position) {
          fold = flat.slice(0, cursor).reduce((sum, { event }) => applyEvent(sum, event), EMPTY_FOLD);
          fold = foldFrom(JSON.parse(JSON.stringify(fold.parts)));
          send({ type: 'loaded', target: { stream, seq: Number(seq) } });
        } else {
          send({ type: 'loaded', target: { stream: link.state.stream, seq: link.state.seq } });
        }
      };
      /** @param {{move: string, size: number}} action */
      const play = ({ move, size }) => {
        answer(size);
        const frame = flat[at];
        if (move === 'next' && frame && link.state.phase === 'open') {
          at += 1;
          send({ type: 'frame', ...frame });
        }
        if (move === 'repeat' && at > 0) send({ type: 'frame', ...flat[Math.max(from, at - 1 - size)] });
        if (move === 'skip') at = Math.min(flat.length - 1, at + size);
        if (move === 'cut') send({ type: 'failed', code: 'NETWORK' });
        if (move === 'close') send({ type: 'closed' });
        if (move === 'late' && old.length) send({ type: 'frame', generation: old[size % old.length], ...flat[(at + size) % flat.length] });
        if (move === 'garble') send({ type: 'frame', id: frame?.id ?? null, event: null });
        if (move === 'wake') send({ type: 'wake', reason: ['online', 'visible', 'focus', 'resume', 'pageshow'][size % 5] });
        if (move === 'freeze') send({ type: 'freeze' });
        if (move === 'hide') send({ type: 'hidden' });
        if (move === 'pass') {
          link.now += size * 1_000;
          send({ type: 'tick' });
        }
      };

      send({ type: 'follow', target: { stream: 's0', seq: 0 } });
      for (const move of moves) {
        if (outcome) break;
        play(move);
      }
      // Then the network is kind: it must come to the end, and soon.
      send({ type: 'wake', reason: 'visible' });
      for (let i = 0; i < 3 * flat.length + 50 && !outcome; i++) {
        if (link.state.phase === 'waiting') {
          link.now = link.state.until;
          send({ type: 'tick' });
        }
        play({ move: 'next', size: 0 });
      }
      expect(outcome).toEqual(OUTCOME);
      expect(fold.parts).toEqual([{ type: 'text', id: 'p', text: plan.texts.join(''), state: 'done' }]);
    }), { numRuns: 1_000 });
}, 60_000);

describe('F1 a network that holds streams back', () => {
  /** Lets the connection that is due fall silent, answering the requests in between. @param {Driver} link */
  function silence(link) {
    link.pass(LIVENESS_MS);
    while (link.state.phase === 'waiting') link.pass(link.state.until - link.now);
    if (link.state.phase === 'loading') link.send({ type: 'loaded', target: { stream: 's1', seq: 0 } });
  }

  test('F1 two silent connections, with an answer in between, and the log is asked for piece by piece', () => {
    const link = new Driver();
    link.follow();
    silence(link);
    expect(link.state).toMatchObject({ phase: 'connecting', mode: 'stream' });
    silence(link);
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', mode: 'poll', stream: 's1' });
    link.send({ type: 'opened' });
    link.frame(1);
    expect(link.applied).toHaveLength(1);
    expect(shown(link.state)).toBe('quiet');
  });

  test('F2 a server that does not answer at all is no reason to give streams up', () => {
    const link = new Driver();
    link.follow();
    for (let i = 0; i < 6; i++) {
      link.pass(LIVENESS_MS);
      link.send({ type: 'failed', code: 'NETWORK' });
      link.pass(10_000);
    }
    expect(link.state.mode).toBe('stream');
  });

  test('F2 a beat that comes in time forgives the silence before', () => {
    const link = new Driver();
    link.follow();
    silence(link);
    link.send({ type: 'opened' });
    link.now += HEARTBEAT_MS;
    link.send({ type: 'bytes' });
    expect(link.state.mute).toBe(0);
  });

  test('F1 another network gets another chance', () => {
    const link = new Driver();
    link.follow();
    silence(link);
    silence(link);
    link.send({ type: 'opened' });
    link.now += 5_000;
    link.send({ type: 'wake', reason: 'online' });
    expect(link.actions.at(-1)).toMatchObject({ type: 'connect', mode: 'stream' });
  });
});
