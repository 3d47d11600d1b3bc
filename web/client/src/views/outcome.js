// How a turn ended, and what can be done about it. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { Icon } from './icons.js';

/** @import {Outcome} from '../types.js' */

/** What a person should read. @param {Outcome} outcome */
export function sentenceOf({ code, text }) {
  return text || TEXT.outcomes[code] || TEXT.outcomeUnknown;
}

/** There is more to come, if the person wants it. */
const CUT_SHORT = ['CANCELLED', 'LENGTH', 'TURN_TIMEOUT', 'DETACHED_TIMEOUT', 'TOO_MANY_STEPS'];

/**
 * Of failures only the newest asks for something; once a newer message is accepted what remains is a note.
 * @param {{outcome: Outcome, last: boolean, begun: boolean, again: () => void, goOn: () => void}} props begun: something was written
 */
export function OutcomeLine({ outcome, last, begun, again, goOn }) {
  const { outcome: kind, code, retryable } = outcome;
  if (code === 'FINISHED') return null;
  const sentence = sentenceOf(outcome);
  if (!last) return h('p', { class: 'outcome note', 'data-testid': 'outcome-note', 'data-code': code }, sentence);
  const failed = kind !== 'finished' && kind !== 'cancelled';
  return h('div', { class: `outcome ${failed ? 'failed' : 'calm'}`, 'data-testid': 'outcome', 'data-outcome': kind, 'data-code': code },
    failed ? h(Icon, { name: 'warn' }) : null,
    h('p', null, sentence),
    begun && CUT_SHORT.includes(code) ? h('button', { type: 'button', 'data-testid': 'go-on', onClick: goOn }, TEXT.goOn) : null,
    retryable ? h('button', { type: 'button', 'data-testid': 'retry', onClick: again }, TEXT.retry) : null);
}
