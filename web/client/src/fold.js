// The reducer: events -> the parts of an answer. Pure; the same as app/message.py, and both are bound
// by tests/vectors/fold.json.
//
// It merges by the declared kind of an event and by identity, never by comparing texts: a delta is
// always appended, also one that repeats or prefixes what is there. Folds are values: a part that did
// not change keeps its identity, so a view compares parts with `===`. Appending is constant time, for
// engines keep `a + b` as a rope and flatten it once when somebody reads it.

/** @import {Event, Outcome, Part, Status, TextPart, ToolPart, Usage} from './types.js' */

/**
 * @typedef {object} Fold
 * @property {readonly Part[]} parts
 * @property {Status|null} status holds until the next content
 * @property {Outcome|null} outcome set once, by the last event
 * @property {Usage|null} usage sum over the steps
 * @property {ReadonlyMap<string, number>} places id -> index in `parts`; GONE where it was withdrawn or replaced
 * @property {ReadonlySet<string>} open ids that still take deltas
 */

// The id stays taken, so that late deltas of a withdrawn part find no home.
const GONE = -1;

/** @type {Fold} */
export const EMPTY_FOLD = Object.freeze({
  parts: Object.freeze([]),
  status: null,
  outcome: null,
  usage: null,
  places: new Map(),
  open: new Set(),
});

/**
 * The fold that a snapshot stands for.
 * @param {readonly Part[]} parts
 * @param {{status?: Status|null, outcome?: Outcome|null}} [rest]
 * @returns {Fold}
 */
export function foldFrom(parts, { status = null, outcome = null } = {}) {
  return { ...load(EMPTY_FOLD, parts), status, outcome, usage: outcome?.usage ?? null };
}

/**
 * One event applied. Unknown types and identities are dropped, never an error: the log is the truth.
 * @param {Fold} fold
 * @param {Event} event
 * @returns {Fold} the same object where nothing changed
 */
export function applyEvent(fold, event) {
  const reduce = REDUCERS.get(event.type);
  if (!reduce) return fold;
  // Content that was dropped still shows that output flows again.
  const base = fold.status && CONTENT.test(event.type) ? { ...fold, status: null } : fold;
  return reduce(base, event);
}

const CONTENT = /^(text|reasoning|tool)-/;

/** @type {ReadonlyMap<string, (fold: Fold, event: Event) => Fold>} */
const REDUCERS = new Map([
  ['text-start', (fold, { id }) => start(fold, id, textPart('text', id))],
  ['reasoning-start', (fold, { id }) => start(fold, id, textPart('reasoning', id))],
  ['text-delta', (fold, { id, delta }) => append(fold, id, delta)],
  ['reasoning-delta', (fold, { id, delta }) => append(fold, id, delta)],
  ['text-end', (fold, { id, text }) => close(canonical(fold, id, text), [id])],
  ['reasoning-end', (fold, { id }) => close(fold, [id])],
  ['tool-input-start', (fold, { toolCallId, toolName }) => start(fold, toolCallId, toolPart(toolCallId, toolName))],
  ['tool-input-delta', (fold, { toolCallId, inputTextDelta }) => append(fold, toolCallId, inputTextDelta)],
  ['tool-input-available', (fold, event) => toolInput(fold, event, { state: 'input-available', input: event.input })],
  ['tool-input-error', (fold, event) =>
    toolInput(fold, event, { state: 'input-error', inputText: event.inputText, errorText: event.errorText })],
  ['tool-dispatched', (fold, { toolCallId, at }) => toolState(fold, toolCallId, { state: 'running', startedAt: at })],
  ['tool-output-available', (fold, { toolCallId, output, at }) =>
    toolState(fold, toolCallId, { state: 'output-available', output, endedAt: at })],
  ['tool-output-error', (fold, { toolCallId, errorText, unknown, at }) =>
    toolState(fold, toolCallId, {
      state: 'output-error', errorText, endedAt: at, ...(unknown ? { unknown } : {}),
    })],
  ['start-step', (fold) => ({ ...fold, parts: [...fold.parts, { type: 'step-start' }] })],
  ['finish-step', (fold, { usage }) => ({ ...close(fold, fold.open), usage: addUsage(fold.usage, usage) })],
  ['reset-step', withdraw],
  ['status', (fold, { state, text, attempt, limit, until }) =>
    ({ ...fold, status: { state, text, attempt, limit, until } })],
  ['snapshot', (fold, { parts }) => load(fold, parts)],
  ['outcome', (fold, event) => {
    const { type: _, ...outcome } = event;
    return { ...close(fold, fold.open), status: null, outcome: /** @type {Outcome} */ (outcome) };
  }],
]);

// parts

/** @param {'text'|'reasoning'} type @param {string} id @returns {TextPart} */
function textPart(type, id) {
  return { type, id, text: '', state: 'streaming' };
}

/** @param {string} toolCallId @param {string} toolName @returns {ToolPart} */
function toolPart(toolCallId, toolName) {
  return { type: 'tool', toolCallId, toolName, state: 'input-streaming', inputText: '' };
}

/** @param {Fold} fold @param {string} id @param {Part} part @returns {Fold} */
function start(fold, id, part) {
  if (fold.places.has(id)) return fold;
  return {
    ...fold,
    parts: [...fold.parts, part],
    places: new Map(fold.places).set(id, fold.parts.length),
    open: new Set(fold.open).add(id),
  };
}

/** @param {Fold} fold @param {string} id @param {string} delta @returns {Fold} */
function append(fold, id, delta) {
  if (!fold.open.has(id)) return fold;
  return change(fold, id, (part) =>
    part.type === 'tool'
      ? { ...part, inputText: part.inputText + delta }
      : { ...part, text: /** @type {TextPart} */ (part).text + delta });
}

/** A text given at the end replaces what the deltas gave. @param {Fold} fold @param {string} id @param {string=} text */
function canonical(fold, id, text) {
  if (text === undefined || !fold.open.has(id)) return fold;
  return change(fold, id, (part) => ({ .../** @type {TextPart} */ (part), text }));
}

/** @param {Fold} fold @param {Iterable<string>} ids @returns {Fold} */
function close(fold, ids) {
  let result = fold;
  const open = new Set(fold.open);
  for (const id of ids) {
    if (!open.delete(id)) continue;
    result = change(result, id, (part) =>
      part.type === 'tool' ? part : { .../** @type {TextPart} */ (part), state: 'done' });
  }
  return open.size === fold.open.size ? fold : { ...result, open };
}

/** @param {Fold} fold @param {string} id @param {(part: Part) => Part} update @returns {Fold} */
function change(fold, id, update) {
  const place = fold.places.get(id) ?? GONE;
  if (place === GONE) return fold;
  const parts = fold.parts.slice();
  parts[place] = update(parts[place]);
  return { ...fold, parts };
}

// tools

/** @param {Fold} fold @param {Event} event @param {Partial<ToolPart>} changes @returns {Fold} */
function toolInput(fold, { toolCallId, toolName }, changes) {
  const started = start(fold, toolCallId, toolPart(toolCallId, toolName)); // dropped where it exists
  if (!started.open.has(toolCallId)) return started;
  return toolState(close(started, [toolCallId]), toolCallId, changes);
}

/** @param {Fold} fold @param {string} id @param {Partial<ToolPart>} changes @returns {Fold} */
function toolState(fold, id, changes) {
  if (fold.open.has(id)) return fold;
  return change(fold, id, (part) => (part.type === 'tool' ? { ...part, ...changes } : part));
}

// everything at once

/** Withdraws what came after the last step-start. @param {Fold} fold @returns {Fold} */
function withdraw(fold) {
  const keep = fold.parts.findLastIndex((part) => part.type === 'step-start') + 1;
  const places = new Map(fold.places);
  const open = new Set(fold.open);
  for (const part of fold.parts.slice(keep)) {
    const id = partId(part);
    if (!id) continue;
    places.set(id, GONE);
    open.delete(id);
  }
  return { ...fold, parts: fold.parts.slice(0, keep), places, open };
}

/** @param {Fold} fold @param {readonly Part[]} parts @returns {Fold} */
function load(fold, parts) {
  const places = new Map(fold.places);
  const open = new Set();
  for (const id of places.keys()) places.set(id, GONE);
  parts.forEach((part, place) => {
    const id = partId(part);
    if (!id) return;
    places.set(id, place);
    if ('state' in part && (part.state === 'streaming' || part.state === 'input-streaming')) open.add(id);
  });
  return { ...fold, parts: [...parts], places, open };
}

/** @param {Part} part @returns {string|undefined} */
export function partId(part) {
  if (part.type === 'tool') return part.toolCallId;
  return part.type === 'text' || part.type === 'reasoning' ? part.id : undefined;
}

/** @param {Usage|null} sum @param {Usage|null|undefined} more @returns {Usage|null} */
function addUsage(sum, more) {
  if (!sum || !more) return sum ?? more ?? null;
  /** @type {Usage} */
  const total = {};
  for (const key of /** @type {(keyof Usage)[]} */ (['inputTokens', 'outputTokens', 'cachedTokens'])) {
    if (sum[key] !== undefined || more[key] !== undefined) total[key] = (sum[key] ?? 0) + (more[key] ?? 0);
  }
  return total;
}
