import { signal } from '@preact/signals';
import { h, render } from 'preact';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';

import { foldFrom } from '../src/fold.js';
import { TEXT } from '../src/text.js';
import { MORE } from '../src/text_extras.js';
import { emptyThread } from '../src/thread_state.js';
import { Announcer } from '../src/views/announcer.js';
import { AwayLine } from '../src/views/away.js';
import { ConnectionLine } from '../src/views/connection.js';
import { load } from '../src/views/lazy.js';
import { Answer } from '../src/views/message.js';
import { Markdown } from '../src/views/markdown.js';
import { Parts } from '../src/views/parts.js';

const root = document.createElement('div');

beforeAll(load); // tools are drawn by what is loaded on demand

afterEach(() => {
  render(null, root);
  vi.useRealTimers();
});

/** @param {any} vnode */
function draw(vnode) {
  render(vnode, root);
  return root;
}

/** @param {string} text */
const markdown = (text) => draw(h(Markdown, { text, done: false }));

const get = (/** @type {string} */ id) => root.querySelector(`[data-testid="${id}"]`);

test('A4 nothing a model writes becomes markup, an address of ours or a request', () => {
  markdown([
    '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<iframe src="http://evil"></iframe>', 'a <b onclick=x>b</b>',
    '![pixel](http://evil/p.png)', '[x](javascript:alert(1))', '[y](data:text/html,z)', '<javascript:alert(1)>', '[api](api/threads)',
    '[a]: javascript:alert(1)', '[a]', '| <img src=x> |\n|---|\n| <script>x</script> |', '<svg onload=alert(1)>', '<style>*{}</style>',
  ].join('\n\n'));
  expect(root.querySelector('script,img,iframe,b,style,object,embed,form,base,[onclick],[onerror],[onload]')).toBe(null);
  expect([...root.querySelectorAll('a')].map((a) => a.getAttribute('href'))).toEqual(['http://evil/p.png']);
  for (const a of root.querySelectorAll('a')) expect(a.getAttribute('rel')).toContain('noopener');
  expect(root.textContent).toContain('<script>alert(1)</script>');
});

test('M4 Markdown becomes elements', () => {
  markdown('# T\n\n**b** *i* ~~d~~ `c` &amp; x<br>y\n\n- [x] done\n- [ ] open\n\n3. three\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n```js\nlet x = "<y>";\n```\n\n> q\n\n---');
  const texts = (/** @type {string} */ selector) => [...root.querySelectorAll(selector)].map(({ textContent }) => textContent);
  expect(texts('.h1, strong, em, del, p code')).toEqual(['T', 'b', 'i', 'd', 'c']);
  expect(root.querySelector('p').textContent).toBe('b i d c & xy');
  expect(/** @type {any[]} */ ([...root.querySelectorAll('li input')]).map(({ checked }) => checked)).toEqual([true, false]);
  expect(root.querySelector('ol').getAttribute('start')).toBe('3');
  expect([...root.querySelectorAll('th')].map((cell) => cell.className)).toEqual(['align-center', 'align-right']);
  expect(root.querySelector('pre code').textContent).toBe('let x = "<y>";');
  expect(texts('figcaption, blockquote')).toEqual(['js', 'q']);
});

test('M4 what is finished keeps its elements while the text grows', () => {
  const text = Array.from({ length: 100 }, (_, i) => `Paragraph ${i}\n\n| a |\n|---|\n| ${i} |\n\n`).join('');
  markdown(text.slice(0, 1_000));
  const first = [...root.querySelectorAll('p, table')].slice(0, 10);
  for (let end = 1_001; end < 1_400; end += 7) markdown(text.slice(0, end));
  expect([...root.querySelectorAll('p, table')].slice(0, 10)).toEqual(first);
  first.forEach((element, i) => expect(root.querySelectorAll('p, table')[i]).toBe(element));
});

/** Opens the card; what is in it is drawn then. */
async function unfold() {
  const card = /** @type {HTMLDetailsElement} */ (root.querySelector('details'));
  card.open = true;
  card.dispatchEvent(new Event('toggle'));
  await new Promise((done) => { setTimeout(done); });
}

test('a card of a tool shows JSON readably, and what is long in part', async () => {
  const tool = { type: 'tool', toolCallId: 'c', toolName: 'wait', state: 'output-available', inputText: '{"a":1}', input: { a: 1 }, output: `[${'1,'.repeat(5_000)}2]` };
  draw(h(Parts, { parts: /** @type {any} */ ([tool]), live: false }));
  expect(root.querySelector('pre')).toBe(null);
  await unfold();
  const [input, output] = root.querySelectorAll('pre');
  expect(input.textContent).toBe('{\n  "a": 1\n}');
  expect(output.textContent).toMatch(/^\[\n {2}1,\n[\s\S]*…$/);
  /** @type {HTMLElement} */ (get('show-all')).click();
  await new Promise((done) => { setTimeout(done); });
  expect(root.querySelectorAll('pre')[1].textContent).toMatch(/2\n\]$/);
});

test('tool and reasoning cards say their state', async () => {
  const tool = { type: 'tool', toolCallId: 'c', toolName: 'wait', state: 'running', inputText: '{}', input: { s: 1 }, startedAt: 1 };
  /** @param {any} change @param {boolean} live */
  const state = (change, live) => {
    draw(h(Parts, { parts: [{ ...tool, ...change }], live }));
    return get('tool')?.getAttribute('data-state');
  };
  expect(state({}, true)).toBe('running');
  expect(state({}, false)).toBe('interrupted');
  expect(state({ state: 'input-streaming' }, false)).toBe('abandoned');
  expect(state({ state: 'output-error', errorText: 'gone', unknown: true, endedAt: 3 }, true)).toBe('unknown');
  await unfold();
  expect(root.textContent).toContain(MORE.toolUnknown);
  expect(state({ state: 'output-available', output: false, endedAt: 1_501 }, false)).toBe('output-available');
  expect(root.textContent).toContain('1.5 s');
  draw(h(Parts, { parts: [{ type: 'reasoning', id: 'r', text: 'hm', state: 'done' }], live: false }));
  expect(get('reasoning')?.getAttribute('data-state')).toBe('done');
});

/** @param {any} turn @param {any} fold @param {any} [props] */
function answer(turn, fold, props, connection = 'quiet') {
  const message = { id: 'a', parent: 'q', role: 'assistant', createdAt: 1, accepted: 0, provisional: false, cursor: null,
    fold: { ...foldFrom([]), ...fold }, turn: { stream: 's', model: 'm', ...turn } };
  return draw(h(/** @type {any} */ (Answer), { message, thread: { connection: { value: { shown: connection } } }, beside: [message], stopping: false, last: true, ...props }));
}

test('O5 a retry is told with its countdown', () => {
  vi.useFakeTimers({ now: 1_000_000 });
  answer({ state: 'running' }, { status: { state: 'retrying', text: 'The model stopped responding', attempt: 2, limit: 6, until: 1_004_000 } });
  expect(get('status')?.textContent).toBe('Retrying in 4 s, attempt 2 of 6: The model stopped responding');
});

test('a model that is silent for long is told of, until it speaks', async () => {
  vi.useFakeTimers({ now: 1_000_000 });
  const parts = [{ type: 'text', id: 'p', text: 'One', state: 'streaming' }];
  /** What is said so many seconds after an event. @param {number} seconds @param {string} [connection] */
  const after = async (seconds, connection) => {
    answer({ state: 'running' }, { parts }, {}, connection);
    await vi.advanceTimersByTimeAsync(seconds * 1_000 + 100);
    return get('status')?.textContent;
  };
  expect(await after(20)).toBe(undefined);
  expect(await after(20)).toBe(undefined);
  expect([TEXT.silent(39), TEXT.silent(40)]).toContain(await after(40));
  expect(await after(0)).toBe(undefined);
  expect([TEXT.silent(39), TEXT.silent(40)]).toContain(await after(40));
  expect(await after(100, 'reconnecting')).toBe(undefined); // nobody knows what the model said
  expect(await after(20)).toBe(undefined);
});

test('O1 O3 the newest failure offers to try again, an older one is a note', () => {
  const outcome = { outcome: 'failed', code: 'MODEL_EOF', text: 'Cut short', retryable: true };
  answer({ state: 'failed' }, { outcome });
  expect(get('outcome')?.getAttribute('data-code')).toBe('MODEL_EOF');
  expect(get('retry')).not.toBe(null);
  answer({ state: 'failed' }, { outcome }, { last: false });
  expect([get('outcome'), get('retry')]).toEqual([null, null]);
  expect(get('outcome-note')?.textContent).toBe('Cut short');
  answer({ state: 'cancelled' }, { outcome: { ...outcome, outcome: 'cancelled', code: 'CANCELLED', text: '', retryable: false } });
  expect(get('outcome')?.textContent).toBe(TEXT.outcomes.CANCELLED);
  answer({ state: 'finished' }, { outcome: { ...outcome, outcome: 'finished', code: 'FINISHED', text: '' } });
  expect(get('outcome')).toBe(null);
});

test('the end of an answer is announced once, also when it began in the same frame', async () => {
  const failure = { outcome: 'failed', code: 'MODEL_EOF', text: 'Cut short', retryable: true };
  const ready = { ...emptyThread('t', 'loading'), phase: 'ready' };
  const message = (/** @type {string} */ id, /** @type {any} */ state, /** @type {any} */ fold = {}) => ({
    id, role: 'assistant', turn: { state, stream: id, model: 'm' }, fold: { ...foldFrom([]), ...fold },
  });
  const view = signal(/** @type {any} */ (emptyThread('t', 'loading')));
  /** What is in the live region after a change. @param {any} state */
  const after = async (state) => {
    view.value = state;
    draw(h(/** @type {any} */ (Announcer), { app: { current: { value: { id: state.id, view } } } }));
    await new Promise((done) => { setTimeout(done, 50); });
    return get('announcer')?.firstElementChild;
  };
  const old = message('old', 'failed', { outcome: failure });
  await after(view.value);
  expect(await after({ ...ready, messages: [old] })).toBe(null); // it had ended before anyone looked
  const live = message('a', 'running');
  expect(await after({ ...ready, messages: [old, live], live })).toBe(null);
  const retrying = message('a', 'running', { status: { state: 'retrying' } });
  expect((await after({ ...ready, messages: [old, live], live: retrying }))?.textContent).toBe(TEXT.announceRetrying);
  const messages = [old, message('a', 'failed', { outcome: failure })];
  const said = await after({ ...ready, messages });
  expect(said?.textContent).toBe(TEXT.announceEnded('Cut short'));
  expect(await after({ ...ready, messages, info: {} })).toBe(said);
  const next = await after({ ...ready, messages: [...messages, message('b', 'failed', { outcome: failure })] });
  expect(next?.textContent).toBe(TEXT.announceEnded('Cut short'));
  expect(next).not.toBe(said); // the same words of another answer are news
  expect(await after({ ...ready, id: 'other', messages })).toBe(null);
});

/** What the foot of the page needs of the app. @param {any} thread */
const appOf = (thread) => /** @type {any} */ ({
  current: signal({ view: signal(emptyThread('t', 'ready')), away: signal(null), connection: signal({ shown: 'quiet', until: 0, waiting: false, polling: false }), ...thread }),
  online: signal(true), signedOut: signal(false), wake() {},
});
const running = /** @type {any} */ ({ id: 'a', fold: foldFrom([]), turn: { state: 'running' } });

/** Lets effects happen. */
const drawn = () => vi.advanceTimersByTimeAsync(100);

test('an answer goes on without who is offline only if there is one', async () => {
  const view = signal(emptyThread('t', 'ready'));
  const app = appOf({ view });
  app.online.value = false;
  draw(h(ConnectionLine, { app }));
  expect(get('connection').textContent).toBe(TEXT.offline);
  view.value = { ...view.value, live: running };
  await new Promise((done) => { setTimeout(done); });
  expect(get('connection').textContent).toBe(TEXT.offline + TEXT.offlineAnswer);
});

test('that the server was restarted is told until the answer has ended, and some time longer', async () => {
  vi.useFakeTimers();
  const view = signal({ ...emptyThread('t', 'ready'), live: running });
  const away = signal(/** @type {any} */ ({ from: 1, to: 1, restarted: true }));
  draw(h(AwayLine, { app: appOf({ view, away }) }));
  await vi.advanceTimersByTimeAsync(600_000);
  expect(get('away').textContent).toContain(MORE.restarted);
  view.value = { ...view.value, live: null };
  await drawn();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(get('away')).not.toBe(null);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(get('away')).toBe(null);
});

test('what became of an answer meanwhile stays until it is read', async () => {
  vi.useFakeTimers();
  draw(h(AwayLine, { app: appOf({ away: signal({ from: 1, to: 60_000 }) }) }));
  await vi.advanceTimersByTimeAsync(600_000);
  expect(get('away')).not.toBe(null);
});
