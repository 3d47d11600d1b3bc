// What became of the answer while nobody listened. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { IconButton } from './icons.js';

/** @import {App} from '../app.js' */

/** @param {{app: App}} props */
export function AwayLine({ app }) {
  const { away, view } = app.current.value;
  if (!away.value) return null;
  const { from, to, restarted } = away.value;
  const ended = view.value.messages.map(({ fold }) => fold.outcome).findLast((outcome) => outcome?.at && outcome.at >= from && outcome.at <= to);
  const text = restarted ? TEXT.restarted : ended?.at
    ? TEXT.awayEnded(time(from), time(to), TEXT.awayHow[ended.outcome], time(ended.at))
    : TEXT.awayGoesOn(time(from), time(to));
  return h('div', { class: 'away', role: 'status', 'data-testid': 'away' }, h('p', null, text),
    h(IconButton, { icon: 'close', label: TEXT.dismiss, testid: 'away-dismiss', onClick: () => { away.value = null; } }));
}

/** Time of day. @param {number} ms since 1970 */
function time(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
