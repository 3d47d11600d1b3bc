// The parts of an answer: text, reasoning, tools. DOM.

import { h } from 'preact';

import { partId } from '../fold.js';
import { TEXT } from '../text.js';
import { useClock } from './clock.js';
import { Icon } from './icons.js';
import { Markdown } from './markdown.js';
import { memo } from './memo.js';

/** @import {Part, TextPart, ToolPart} from '../types.js' */

/** @param {{parts: readonly Part[], live: boolean}} props */
export function Parts({ parts, live }) {
  return parts.map((part, index) => (part.type === 'step-start' ? null : h(PartView, { key: partId(part) ?? index, part, live })));
}

const PartView = memo(
  /** @param {{part: Part, live: boolean}} props */
  ({ part, live }) => {
    switch (part.type) {
      case 'text': return part.text ? h(Markdown, { text: part.text, done: part.state === 'done' || !live }) : null;
      case 'reasoning': return h(Reasoning, { part, live });
      case 'tool': return h(Tool, { part, live });
      default: return null; // of the future
    }
  });

/** @param {{part: TextPart, live: boolean}} props */
function Reasoning({ part, live }) {
  if (!part.text) return null;
  const running = live && part.state === 'streaming';
  return h('details', { class: 'card reasoning', 'data-testid': 'reasoning', 'data-state': part.state },
    h('summary', null, h(Icon, { name: 'thought' }), h('span', { class: 'name' }, running ? TEXT.reasoningRunning : TEXT.reasoning)),
    h('div', { class: 'body' }, h(Markdown, { text: part.text, done: !running })));
}

/** What a person should read of a call's state. @param {ToolPart} part @param {boolean} live */
function toolState({ state, unknown }, live) {
  if (unknown) return 'unknown';
  if (live || state.startsWith('output') || state === 'input-error') return state;
  return state === 'running' ? 'interrupted' : 'abandoned';
}

/** @param {{part: ToolPart, live: boolean}} props */
function Tool({ part, live }) {
  const state = toolState(part, live);
  const { toolName, input, inputText, output, errorText } = part;
  return h('details', { class: `card tool tool-${state}`, 'data-testid': 'tool', 'data-state': state, 'data-id': part.toolCallId },
    h('summary', null,
      h(Icon, { name: 'tool' }),
      h('span', { class: 'name' }, toolName),
      h('span', { class: 'state' }, TEXT.toolStates[state] ?? state),
      h(Duration, { part, running: state === 'running' })),
    h('div', { class: 'body' },
      h('h4', null, TEXT.toolInput),
      h('pre', { tabIndex: 0 }, input === undefined ? inputText : readable(input)),
      state === 'unknown' ? h('p', null, TEXT.toolUnknown) : null,
      errorText ? [h('h4', null, TEXT.toolError), h('pre', { tabIndex: 0 }, errorText)] : null,
      output === undefined ? null : [h('h4', null, TEXT.toolOutput), h('pre', { tabIndex: 0 }, readable(output))]));
}

/** @param {{part: ToolPart, running: boolean}} props */
function Duration({ part: { startedAt, endedAt }, running }) {
  const now = useClock(running);
  if (!startedAt || (!running && !endedAt)) return null;
  const seconds = Math.max(0, ((endedAt ?? now) - startedAt) / 1_000);
  return h('span', { class: 'duration' }, running ? TEXT.seconds(Math.floor(seconds)) : TEXT.tenths(seconds));
}

/** @param {unknown} value */
function readable(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}
