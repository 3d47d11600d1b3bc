// What is up with the connection, if anything. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';

/** @import {App} from '../app.js' */
/** @import {ThreadState} from '../thread_state.js' */

/** @param {{app: App}} props */
export function ConnectionLine({ app }) {
  const thread = app.current.value;
  const { shown, waiting, polling } = thread.connection.value;
  const said = app.signedOut.value ? null : words(shown, app.online.value, thread.view.value);
  const text = said ?? (polling ? TEXT.buffered : null);
  return h('div', { class: 'connection', role: 'status', 'data-testid': 'connection', 'data-state': app.online.value ? shown : 'offline', 'data-polling': polling },
    text ? h('p', { class: shown === 'lost' || shown === 'blocked' ? 'bad' : '' },
      h('span', { class: 'pulse', 'aria-hidden': 'true' }), text,
      waiting || shown === 'lost' || shown === 'blocked'
        ? h('button', { type: 'button', class: 'quiet', 'data-testid': 'try-now', onClick: app.wake }, TEXT.tryNow) : null) : null);
}

/** @param {string} shown @param {boolean} online @param {ThreadState} state */
function words(shown, online, { phase, live }) {
  if (!online) return TEXT.offline + (live ? TEXT.offlineAnswer : '');
  if (shown === 'reconnecting') return phase === 'loading' ? TEXT.unreachable : TEXT.reconnecting;
  if (shown === 'lost') return TEXT.lost;
  return shown === 'blocked' ? TEXT.blocked : null;
}
