// A call of a tool: what went in, what came out, how long it took. DOM.

import { h } from 'preact';
import { useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';
import { useClock } from './clock.js';
import { CopyButton } from './copy_button.js';
import { Icon } from './icons.js';

/** @import {ToolPart} from '../types.js' */

/** So much of an input or an output is shown at first. */
const SHOWN_CHARS = 4_000;

/** What a person should read of a call's state. @param {ToolPart} part @param {boolean} live */
function toolState({ state, unknown }, live) {
  if (unknown) return 'unknown';
  if (live || state.startsWith('output') || state === 'input-error') return state;
  return state === 'running' ? 'interrupted' : 'abandoned';
}

/** @param {{part: ToolPart, live: boolean}} props */
export function Tool({ part, live }) {
  const state = toolState(part, live);
  const [open, setOpen] = useState(false);
  return h('details', { class: `card tool tool-${state}`, 'data-testid': 'tool', 'data-state': state, 'data-id': part.toolCallId,
    onToggle: (/** @type {{currentTarget: HTMLDetailsElement}} */ { currentTarget }) => setOpen(currentTarget.open) },
    h('summary', null,
      h(Icon, { name: state === 'unknown' || state === 'output-error' ? 'warn' : 'tool' }),
      h('span', { class: 'name' }, part.toolName),
      h('span', { class: 'state' }, MORE.toolStates[state] ?? state),
      h(Duration, { part, running: state === 'running' })),
    open ? h(Body, { part, state }) : null);
}

/** @param {{part: ToolPart, state: string}} props */
function Body({ part: { input, inputText, output, errorText }, state }) {
  return h('div', { class: 'body' },
    h(Value, { title: MORE.toolInput, text: input === undefined ? inputText : readable(input) }),
    state === 'unknown' ? h('p', null, MORE.toolUnknown) : null,
    errorText ? h(Value, { title: MORE.toolError, text: errorText }) : null,
    output === undefined ? null : h(Value, { title: MORE.toolOutput, text: readable(output) }));
}

/** @param {{title: string, text: string}} props */
function Value({ title, text }) {
  const [all, setAll] = useState(false);
  const long = !all && text.length > SHOWN_CHARS;
  return h('section', { 'data-testid': 'tool-value' },
    h('div', { class: 'head' }, h('h3', null, title), h(CopyButton, { text })),
    h('pre', { tabIndex: 0 }, long ? `${text.slice(0, SHOWN_CHARS)}…` : text),
    long ? h('button', { type: 'button', class: 'quiet', 'data-testid': 'show-all', onClick: () => setAll(true) }, MORE.showAll(TEXT.size(text.length))) : null);
}

/** @param {{part: ToolPart, running: boolean}} props */
function Duration({ part: { startedAt, endedAt }, running }) {
  const now = useClock(running);
  if (!startedAt || (!running && !endedAt)) return null;
  const seconds = Math.max(0, ((endedAt ?? now) - startedAt) / 1_000);
  return h('span', { class: 'duration', 'data-testid': 'duration' }, running ? TEXT.seconds(Math.floor(seconds)) : MORE.tenths(seconds));
}

/** @param {unknown} value */
function readable(value) {
  return typeof value === 'string' ? pretty(value) : JSON.stringify(value, null, 2);
}

/** Tools often answer with JSON in a text. @param {string} text */
function pretty(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 100_000) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
