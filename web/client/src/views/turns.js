// The messages of a branch, in groups: those far above cost nothing while text comes at the end. DOM.

import { h } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks';

import { later } from './later.js';
import { memo } from './memo.js';
import { Answer, Question } from './message.js';

/** @import {Children} from '../branches.js' */
/** @import {Thread} from '../thread.js' */
/** @import {Message, ThreadState} from '../thread_state.js' */

/** Messages of a group: drawing one takes as long as may be taken at a stretch. */
const GROUP = 10;

/** Groups at the end that are drawn at once, and always laid out: what is seen first. */
const AT_ONCE = 2;

/** Of a message that has no other version: always the same, so that nothing is drawn again. @type {readonly Message[]} */
const ALONE = [];

/** @param {{thread: Thread, state: ThreadState, path: readonly Message[], beside: Children}} props */
export function Turns({ thread, state: { live, stopping, outbox }, path, beside }) {
  const groups = useMemo(() => Array.from({ length: Math.ceil(path.length / GROUP) }, (_, i) => path.slice(i * GROUP, (i + 1) * GROUP)), [path]);
  const [drawn, setDrawn] = useState(AT_ONCE); // groups, from the end
  const whole = drawn >= groups.length;
  useEffect(() => (whole ? undefined : later(() => setDrawn(drawn + 1))), [drawn, whole]);
  const wanted = thread.wanted.value !== null; // it may be anywhere
  useLayoutEffect(() => { if (wanted) setDrawn(Infinity); }, [wanted]);
  const from = wanted ? 0 : Math.max(0, groups.length - drawn);
  const last = outbox.length ? null : path.at(-1);
  return groups.slice(from).map((messages, index) => h(Group, {
    key: from + index, thread, messages, beside, settled: from + index < groups.length - AT_ONCE,
    live: live && messages.some(({ id }) => id === live.id) ? live : null,
    stopping: messages.some(({ id }) => stopping.includes(id)) ? stopping : null,
    last: last && messages.includes(last) ? last : null,
  }));
}

const Group = memo(
  /** @param {{thread: Thread, messages: readonly Message[], beside: Children, settled: boolean, live: Message|null, stopping: readonly string[]|null, last: Message|null}} props */
  ({ thread, messages, beside, settled, live, stopping, last }) => h('div', { class: settled ? 'turns settled' : 'turns' }, messages.map((message) => {
    const versions = beside.get(message.parent) ?? ALONE;
    const props = { key: message.id, thread, beside: versions.length > 1 ? versions : ALONE };
    return message.role === 'user' ? h(Question, { ...props, message }) : h(Answer, {
      ...props,
      message: live?.id === message.id ? live : message,
      stopping: stopping?.includes(message.id) ?? false,
      last: message === last,
    });
  })));
