// What became of the answer while nobody listened. DOM.

import { h } from 'preact';
import { useEffect } from 'preact/hooks';

import { MORE } from '../text_extras.js';
import { IconButton } from './icons.js';

/** @import {App} from '../app.js' */

/** That the server was restarted is no news any more, so long after the answer has ended. */
const NEWS_MS = 30_000;

/** @param {{app: App}} props */
export function AwayLine({ app }) {
  const { away, view } = app.current.value;
  const old = Boolean(away.value?.restarted) && !view.value.live;
  useEffect(() => {
    if (!old) return undefined;
    const timer = setTimeout(() => { away.value = null; }, NEWS_MS);
    return () => clearTimeout(timer);
  }, [away.value, old]);
  if (!away.value) return null;
  const { from, to, restarted } = away.value;
  const ended = view.value.messages.map(({ fold }) => fold.outcome).findLast((outcome) => outcome?.at && outcome.at >= from && outcome.at <= to);
  const text = restarted ? MORE.restarted : ended?.at
    ? MORE.awayEnded(time(from), time(to), MORE.awayHow[ended.outcome], time(ended.at))
    : MORE.awayGoesOn(time(from), time(to));
  return h('div', { class: 'away', role: 'status', 'data-testid': 'away' }, h('p', null, text),
    h(IconButton, { icon: 'close', label: MORE.dismiss, testid: 'away-dismiss', onClick: () => { away.value = null; } }));
}

/** Time of day. @param {number} ms since 1970 */
function time(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}
