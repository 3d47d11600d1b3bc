// Questions, answers and messages on their way. DOM.

import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { ended, plainText } from '../thread_state.js';
import { useClock } from './clock.js';
import { Icon } from './icons.js';
import { memo } from './memo.js';
import { Parts } from './parts.js';

/** @import {Thread} from '../thread.js' */
/** @import {Message, Outgoing} from '../thread_state.js' */
/** @import {Outcome, Status} from '../types.js' */

export const Question = memo(
  /** @param {{message: Message}} props */
  ({ message }) =>
    h('article', { class: 'message user', ...marks(message.id, 'user', 'sent') },
      h('h3', { class: 'hidden' }, TEXT.you),
      h('div', { class: 'bubble', dir: 'auto' }, plainText(message.fold))));

export const Answer = memo(
  /** @param {{message: Message, thread: Thread, stopping: boolean, last: boolean}} props */
  ({ message, thread, stopping, last }) => {
    const { fold, turn } = message;
    const [source, setSource] = useState(false);
    const state = turn?.state ?? 'finished';
    const over = ended(turn);
    const text = plainText(fold);
    return h('article', { class: 'message assistant', 'aria-busy': !over && state === 'running', ...marks(message.id, 'assistant', state) },
      h('h3', { class: 'hidden' }, TEXT.assistant),
      source ? h('pre', { class: 'source', tabIndex: 0, 'data-testid': 'source' }, text) : h(Parts, { parts: fold.parts, live: !over }),
      state === 'queued' ? h(Queued, { thread, id: message.id, stopping }) : null,
      state === 'running' ? h(Progress, { status: fold.status, empty: fold.parts.every(({ type }) => type === 'step-start') }) : null,
      fold.outcome ? h(OutcomeLine, { outcome: fold.outcome, last, retry: () => thread.retry(message.id) }) : null,
      over && text ? h('footer', null,
        h(CopyButton, { text }),
        h('button', { type: 'button', class: 'quiet', 'aria-pressed': source, 'data-testid': 'show-source', onClick: () => setSource(!source) },
          source ? TEXT.rendered : TEXT.source)) : null);
  });

/** @param {string} id @param {'user'|'assistant'} role @param {string} state */
function marks(id, role, state) {
  return { 'data-testid': 'message', 'data-id': id, 'data-role': role, 'data-state': state };
}

/** @param {{thread: Thread, id: string, stopping: boolean}} props */
function Queued({ thread, id, stopping }) {
  return h('p', { class: 'status', 'data-testid': 'status', 'data-state': 'queued' }, TEXT.queued,
    h('button', { type: 'button', class: 'quiet', disabled: stopping, 'data-testid': 'remove-queued', onClick: () => thread.stop(id) },
      stopping ? TEXT.stopping : TEXT.removeQueued));
}

/** @param {{status: Status|null, empty: boolean}} props */
function Progress({ status, empty }) {
  const now = useClock(Boolean(status?.until));
  if (!status && !empty) return null;
  return h('p', { class: 'status', role: 'status', 'data-testid': 'status', 'data-state': status?.state ?? 'thinking' },
    h('span', { class: 'dots', 'aria-hidden': 'true' }, h('i', null), h('i', null), h('i', null)),
    status ? TEXT.status(status, now) : TEXT.thinking);
}

/**
 * How a turn ended. Of failures only the newest asks for something; once a newer message is accepted
 * what remains is a note.
 * @param {{outcome: Outcome, last: boolean, retry: () => void}} props
 */
function OutcomeLine({ outcome: { outcome, code, text, retryable }, last, retry }) {
  if (code === 'FINISHED') return null;
  const failed = outcome !== 'finished' && outcome !== 'cancelled';
  const sentence = text || TEXT.outcomes[code] || TEXT.outcomeUnknown;
  if (!last) return h('p', { class: 'outcome note', 'data-testid': 'outcome-note', 'data-code': code }, sentence);
  return h('div', { class: `outcome ${failed ? 'failed' : 'calm'}`, 'data-testid': 'outcome', 'data-outcome': outcome, 'data-code': code },
    failed ? h(Icon, { name: 'warn' }) : null,
    h('p', null, sentence),
    retryable ? h('button', { type: 'button', 'data-testid': 'retry', onClick: retry }, TEXT.retry) : null);
}

/** @param {{text: string}} props */
function CopyButton({ text }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => navigator.clipboard?.writeText(text).then(() => setCopied(true), () => setCopied(false));
  return h('button', { type: 'button', class: 'quiet', 'data-testid': 'copy', onClick: copy }, copied ? TEXT.copied : TEXT.copy);
}

/** @param {{outgoing: Outgoing, thread: Thread}} props */
export function OutgoingMessage({ outgoing: { id, text, error, refused }, thread }) {
  const reason = error && (error.message && error.code !== 'NETWORK' ? error.message : TEXT.refusals[error.code] ?? TEXT.refusals.HTTP);
  const state = refused ? 'refused' : 'sending';
  return h('article', { class: 'message user outgoing', ...marks(id, 'user', state) },
    h('h3', { class: 'hidden' }, TEXT.you),
    h('div', { class: 'bubble', dir: 'auto' }, text),
    h('p', { class: 'delivery', role: 'status' },
      h('span', null, refused ? TEXT.notSent : error ? TEXT.sendingAgain : TEXT.sending, reason ? ` ${reason}` : ''),
      refused ? h('button', { type: 'button', class: 'quiet', 'data-testid': 'send-again', onClick: () => thread.sendAgain(id) }, TEXT.sendAgain) : null,
      error ? h('button', { type: 'button', class: 'quiet', 'data-testid': 'take-back', onClick: () => thread.takeBack(id) }, TEXT.takeBack) : null));
}
