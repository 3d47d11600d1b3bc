// The messages of a thread, and where the eye is among them. DOM.

import { h } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { branch } from '../thread_state.js';
import { Icon } from './icons.js';
import { Answer, OutgoingMessage, Question } from './message.js';

/** @import {Thread} from '../thread.js' */
/** @import {ThreadState} from '../thread_state.js' */

/** So near the end counts as the end: a line more or less must not stop the following. */
const NEAR_END_PX = 64;

/** @param {{thread: Thread}} props */
export function Conversation({ thread }) {
  const state = thread.view.value;
  const { messages, leaf, live, outbox } = state;
  const path = useMemo(() => branch(messages, leaf), [messages, leaf]);
  const scroll = useScrolling(thread, state);
  return h('div', { class: 'scroller', ref: scroll.box, onScroll: scroll.onScroll, tabIndex: -1, 'data-testid': 'scroller' },
    h('div', { class: 'conversation', role: 'log', 'aria-live': 'off', 'data-testid': 'conversation' },
      path.map((message) => message.role === 'user'
        ? h(Question, { key: message.id, message })
        : h(Answer, {
          key: message.id,
          thread,
          message: live?.id === message.id ? live : message,
          stopping: state.stopping.includes(message.id),
          last: message === path.at(-1),
        })),
      outbox.map((outgoing) => h(OutgoingMessage, { key: outgoing.id, outgoing, thread })),
      path.length || outbox.length ? null : h(Blank, { state })),
    scroll.away ? h('button', { type: 'button', class: 'to-end', title: TEXT.toEnd, 'aria-label': TEXT.toEnd, onClick: scroll.toEnd, 'data-testid': 'to-end' },
      h(Icon, { name: 'down' })) : null);
}

/** @param {{state: ThreadState}} props */
function Blank({ state: { phase } }) {
  if (phase === 'loading') return h('p', { class: 'blank' }, TEXT.loading);
  if (phase === 'missing') return h('p', { class: 'blank', 'data-testid': 'missing' }, TEXT.missing);
  return h('div', { class: 'blank', 'data-testid': 'welcome' }, h('h2', null, TEXT.welcome), h('p', null, TEXT.welcomeNote));
}

/**
 * Follows the text unless the person scrolled up.
 * @param {Thread} thread @param {ThreadState} state
 */
function useScrolling(thread, state) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const following = useRef(true); // cleared by scrolling up, set by coming back to the end
  const [away, setAway] = useState(false);

  const toEnd = () => {
    following.current = true;
    setAway(false);
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  const onScroll = () => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    following.current = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    setAway(!following.current);
  };

  const last = state.outbox.at(-1)?.id;
  useLayoutEffect(toEnd, [thread, last]); // another thread, or a message of one's own
  useLayoutEffect(() => {
    if (following.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [state]);
  useEffect(() => {
    // The keyboard of a phone, a line about the connection, a growing message box.
    const observer = new ResizeObserver(() => {
      if (following.current && box.current) box.current.scrollTop = box.current.scrollHeight;
    });
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return { box, away, onScroll, toEnd };
}
