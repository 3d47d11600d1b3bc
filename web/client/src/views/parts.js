// The parts of an answer: text, reasoning, tools. DOM.

import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { partId } from '../fold.js';
import { TEXT } from '../text.js';
import { Icon } from './icons.js';
import { lazy } from './lazy.js';
import { Markdown } from './markdown.js';
import { memo } from './memo.js';

/** @import {Part, TextPart} from '../types.js' */

const Tool = lazy((extras) => extras.Tool);

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
  const running = live && part.state === 'streaming';
  const seconds = useDuration(running);
  const [open, setOpen] = useState(false);
  if (!part.text) return null;
  const name = running ? TEXT.reasoningRunning : seconds ? TEXT.reasoningFor(TEXT.seconds(seconds)) : TEXT.reasoning;
  return h('details', { class: 'card reasoning', 'data-testid': 'reasoning', 'data-state': part.state,
    onToggle: (/** @type {{currentTarget: HTMLDetailsElement}} */ { currentTarget }) => setOpen(currentTarget.open) },
    h('summary', null, h(Icon, { name: 'thought' }), h('span', { class: 'name' }, name)),
    open ? h('div', { class: 'body' }, h(Markdown, { text: part.text, done: !running })) : null);
}

/** How long something went on that was seen from its beginning, in seconds; the log has no times of it. @param {boolean} running */
function useDuration(running) {
  const begun = useRef(running ? performance.now() : null);
  const [seconds, setSeconds] = useState(/** @type {number|null} */ (null));
  useEffect(() => {
    if (running || begun.current === null) return;
    setSeconds(Math.max(1, Math.round((performance.now() - begun.current) / 1_000)));
    begun.current = null;
  }, [running]);
  return seconds;
}
