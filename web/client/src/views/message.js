// Questions and answers. DOM.

import { h } from 'preact';
import { useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { ended, plainText } from '../thread_state.js';
import { useClock } from './clock.js';
import { CopyButton } from './copy_button.js';
import { Files, filesOf } from './files.js';
import { IconButton } from './icons.js';
import { lazy } from './lazy.js';
import { memo } from './memo.js';
import { OutcomeLine } from './outcome.js';
import { Parts } from './parts.js';
import { useSilence } from './silence.js';
import { Versions } from './versions.js';
import { focusBox } from './writing.js';

/** @import {Fold} from '../fold.js' */
/** @import {Thread} from '../thread.js' */
/** @import {Message} from '../thread_state.js' */
/** @import {Usage} from '../types.js' */

/** @typedef {{message: Message, thread: Thread, beside: readonly Message[]}} MessageProps beside: all versions of it */

const Edit = lazy((extras) => extras.Edit);

export const Question = memo(
  /** @param {MessageProps} props */
  ({ message, thread, beside }) => {
    const { id, fold } = message;
    const text = plainText(fold);
    const editing = thread.edits.message.value === id;
    return h('article', { class: `message user ${editing ? 'editing' : ''}`, ...marks(id, 'user', 'sent') },
      h('h2', { class: 'hidden' }, TEXT.you),
      editing ? h(Edit, { message, thread }) : [
        h(Files, { files: filesOf(fold.parts), addressOf: thread.fileAddress }),
        text ? h('div', { class: 'bubble', dir: 'auto' }, text) : null,
        h('footer', { class: beside.length > 1 ? 'kept' : undefined },
          h(Versions, { id, beside, thread }),
          text ? h(CopyButton, { text }) : null,
          h(IconButton, { icon: 'edit', label: TEXT.edit, testid: 'edit', onClick: () => thread.edits.begin(id) })),
      ]);
  });

export const Answer = memo(
  /** @param {MessageProps & {stopping: boolean, last: boolean}} props */
  ({ message, thread, stopping, last, beside }) => {
    const { id, parent, fold, turn } = message;
    const [source, setSource] = useState(false);
    const state = turn?.state ?? 'finished';
    const over = ended(turn);
    const text = plainText(fold);
    const empty = fold.parts.every(({ type }) => type === 'step-start');
    const again = () => {
      if (parent) thread.answerAgain(parent);
      focusBox(); // the button goes
    };
    const goOn = () => {
      thread.goOn(TEXT.goOnMessage);
      focusBox();
    };
    return h('article', { class: 'message assistant', 'aria-busy': !over && state === 'running', ...marks(id, 'assistant', state) },
      h('h2', { class: 'hidden' }, TEXT.assistant),
      source ? h('pre', { class: 'source', tabIndex: 0, 'data-testid': 'source' }, text) : h(Parts, { parts: fold.parts, live: !over }),
      state === 'queued' ? h(Queued, { thread, id, stopping }) : null,
      state === 'running' ? h(Progress, { fold, thread, empty }) : null,
      fold.outcome ? h(OutcomeLine, { outcome: fold.outcome, last, begun: !empty, again, goOn }) : null,
      over ? h('footer', { class: last || beside.length > 1 ? 'kept' : undefined },
        h(Versions, { id, beside, thread }),
        text ? h(CopyButton, { text }) : null,
        last && fold.outcome?.retryable ? null : h(IconButton, { icon: 'again', label: TEXT.regenerate, testid: 'regenerate', onClick: again }),
        text ? h(IconButton, { icon: 'code', label: source ? TEXT.rendered : TEXT.source, testid: 'show-source', 'aria-pressed': source, onClick: () => setSource(!source) }) : null,
        h(Cost, { usage: fold.usage, model: turn?.model ?? null })) : null);
  });

/** @param {string} id @param {'user'|'assistant'} role @param {string} state */
export function marks(id, role, state) {
  return { tabIndex: -1, 'data-testid': 'message', 'data-id': id, 'data-role': role, 'data-state': state };
}

/** @param {{usage: Usage|null, model: string|null}} props */
function Cost({ usage, model }) {
  const { inputTokens = 0, outputTokens = 0 } = usage ?? {};
  const known = inputTokens + outputTokens > 0;
  if (!known && !model) return null;
  return h('p', { class: 'cost', 'data-testid': 'usage', title: known ? TEXT.usage(TEXT.number(inputTokens), TEXT.number(outputTokens)) : undefined },
    [model, known ? TEXT.usageShort(TEXT.number(outputTokens)) : null].filter(Boolean).join(' · '));
}

/** @param {{thread: Thread, id: string, stopping: boolean}} props */
function Queued({ thread, id, stopping }) {
  const remove = () => {
    void thread.stop(id);
    focusBox();
  };
  return h('p', { class: 'status', 'data-testid': 'status', 'data-state': 'queued' }, TEXT.queued,
    h('button', { type: 'button', class: 'quiet', disabled: stopping, 'data-testid': 'remove-queued', onClick: remove },
      stopping ? TEXT.stopping : TEXT.removeQueued));
}

/** What goes on is announced once, elsewhere: a countdown read aloud would drown everything. @param {{fold: Fold, thread: Thread, empty: boolean}} props */
function Progress({ fold, thread, empty }) {
  const { status } = fold;
  const now = useClock(Boolean(status?.until));
  const silent = useSilence(fold, thread.connection.value);
  if (!status && !empty && !silent) return null;
  return h('p', { class: 'status', 'data-testid': 'status', 'data-state': status?.state ?? (silent ? 'silent' : 'thinking') }, h(Dots, null),
    status ? TEXT.status(status, now) : silent ? TEXT.silent(silent) : TEXT.thinking);
}

/** Something is under way. */
export function Dots() {
  return h('span', { class: 'dots', 'aria-hidden': 'true' }, h('i', null), h('i', null), h('i', null));
}
