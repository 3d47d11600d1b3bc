// Tells those who listen how a turn ended, once, instead of each word. DOM.

import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { find } from '../thread_state.js';
import { sentenceOf } from './outcome.js';

/** @import {App} from '../app.js' */
/** @import {ThreadState} from '../thread_state.js' */

/** @param {{app: App}} props */
export function Announcer({ app }) {
  const thread = app.current.value;
  const state = thread.view.value;
  const [said, setSaid] = useState('');
  /** The turn that was going on, and its status, when this was drawn last. */
  const before = useRef(/** @type {{thread: string, turn: string|null, status: string|null}} */ ({ thread: '', turn: null, status: null }));

  useEffect(() => {
    const was = before.current;
    const status = state.live?.fold.status?.state ?? null;
    before.current = { thread: thread.id, turn: state.live?.id ?? null, status };
    if (was.thread !== thread.id) setSaid('');
    else if (was.turn && was.turn !== state.live?.id) setSaid(ending(state, was.turn));
    else if (status !== was.status && status === 'retrying') setSaid(TEXT.announceRetrying);
    else if (status !== was.status && status === 'recovering') setSaid(TEXT.announceRecovering);
    else if (state.live && !was.turn) setSaid(''); // so that the next end is news, though it reads the same
  }, [thread, state]);
  return h('p', { class: 'hidden', role: 'status', 'aria-live': 'polite', 'data-testid': 'announcer' }, said);
}

/** @param {ThreadState} state @param {string} turn */
function ending(state, turn) {
  const outcome = find(state, turn)?.fold.outcome;
  if (!outcome) return '';
  return outcome.code === 'FINISHED' ? TEXT.announceFinished : TEXT.announceEnded(sentenceOf(outcome));
}
