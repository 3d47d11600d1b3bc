// The messages of a thread, and where the eye is among them. DOM.

import { h } from 'preact';
import { useMemo } from 'preact/hooks';

import { childrenOf, shownPath } from '../branches.js';
import { TEXT } from '../text.js';
import { Icon } from './icons.js';
import { OutgoingMessage } from './outgoing.js';
import { useReveal, useScrolling } from './scrolling.js';
import { Turns } from './turns.js';

/** @import {Thread} from '../thread.js' */
/** @import {ThreadState} from '../thread_state.js' */

/** @param {{thread: Thread}} props */
export function Conversation({ thread }) {
  const state = thread.view.value;
  const { messages, leaf, outbox } = state;
  const path = useMemo(() => shownPath(messages, leaf, outbox), [messages, leaf, outbox]);
  const beside = useMemo(() => childrenOf(messages), [messages]);
  const scroll = useScrolling(thread, state);
  useReveal(thread, path, scroll);
  const down = () => {
    scroll.toEnd();
    scroll.box.current?.focus({ preventScroll: true }); // the button goes
  };
  return h('div', { class: 'scroller', ref: scroll.box, onScroll: scroll.onScroll, tabIndex: -1, 'data-testid': 'scroller' },
    h('div', { class: 'conversation', ref: scroll.content, role: 'log', 'aria-live': 'off', 'aria-label': TEXT.conversation, 'data-testid': 'conversation' },
      h(Turns, { thread, state, path, beside }),
      outbox.map((outgoing) => h(OutgoingMessage, { key: outgoing.id, outgoing, thread })),
      path.length || outbox.length ? null : h(Blank, { state })),
    scroll.away ? h('button', { type: 'button', class: 'to-end', title: TEXT.toEnd, 'aria-label': TEXT.toEnd, onClick: down, 'data-testid': 'to-end' },
      h(Icon, { name: 'down' })) : null);
}

/** @param {{state: ThreadState}} props */
function Blank({ state: { phase } }) {
  if (phase === 'loading') return h('p', { class: 'blank' }, TEXT.loading);
  if (phase === 'missing') return h('p', { class: 'blank', 'data-testid': 'missing' }, TEXT.missing);
  return h('div', { class: 'blank', 'data-testid': 'welcome' }, h('p', { class: 'welcome' }, TEXT.welcome), h('p', null, TEXT.welcomeNote));
}
