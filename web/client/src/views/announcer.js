// Tells those who listen how a turn ended, once, instead of each word. DOM.

import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { endedSince } from '../thread_state.js';
import { sentenceOf } from './outcome.js';

/** @import {App} from '../app.js' */
/** @import {ThreadState} from '../thread_state.js' */

/** What is said, and of which answer: the same words of another one are news. @typedef {{answer: string, text: string}} Said */

/** @type {Said} */
const NOTHING = { answer: '', text: '' };

/** @param {{app: App}} props */
export function Announcer({ app }) {
  const thread = app.current.value;
  const state = thread.view.value;
  const [said, setSaid] = useState(NOTHING);
  /** What was drawn last. */
  const before = useRef(/** @type {ThreadState|null} */ (null));

  useEffect(() => {
    const was = before.current?.id === state.id ? before.current : null;
    before.current = state;
    setSaid((last) => (was ? news(was, state) : NOTHING) ?? last);
  }, [state]);
  return h('p', { class: 'hidden', role: 'status', 'aria-live': 'polite', 'data-testid': 'announcer' },
    said.text ? h('span', { key: said.answer + said.text }, said.text) : null);
}

/** What there is to say; null: nothing new. @param {ThreadState} was @param {ThreadState} state @returns {Said|null} */
function news(was, state) {
  const over = was.phase === 'loading' ? undefined : endedSince(was, state);
  if (over?.fold.outcome) {
    const { outcome } = over.fold;
    return { answer: over.id, text: outcome.code === 'FINISHED' ? TEXT.announceFinished : TEXT.announceEnded(sentenceOf(outcome)) };
  }
  if (state.phase === 'missing' && was.phase !== 'missing') return { answer: state.id, text: TEXT.composerGone };
  const answer = state.live?.id ?? '';
  const status = state.live?.fold.status?.state;
  if (status !== was.live?.fold.status?.state) {
    if (status === 'retrying') return { answer, text: TEXT.announceRetrying };
    if (status === 'recovering') return { answer, text: TEXT.announceRecovering };
  }
  return state.live && !was.live ? NOTHING : null;
}
