// Leads between the versions of a message: a question that was rewritten, an answer that was made again. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { IconButton } from './icons.js';

/** @import {Thread} from '../thread.js' */
/** @import {Message} from '../thread_state.js' */

/** @param {{id: string, beside: readonly Message[], thread: Thread}} props beside: all versions, this one too */
export function Versions({ id, beside, thread }) {
  if (beside.length < 2) return null;
  const index = beside.findIndex((message) => message.id === id);
  /** @param {number} step */
  const to = (step) => () => thread.select(beside[index + step].id);
  return h('div', { class: 'versions', role: 'group', 'aria-label': TEXT.versions, 'data-testid': 'versions' },
    h(IconButton, { icon: 'left', label: TEXT.earlier, testid: 'earlier', disabled: index === 0, onClick: to(-1) }),
    h('span', { 'data-testid': 'version' }, TEXT.version(index + 1, beside.length)),
    h(IconButton, { icon: 'right', label: TEXT.later, testid: 'later', disabled: index === beside.length - 1, onClick: to(1) }));
}
