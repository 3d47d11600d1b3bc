// Messages on their way, and wishes for another answer. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { Files } from './files.js';
import { Dots, marks } from './message.js';

/** @import {Thread} from '../thread.js' */
/** @import {Outgoing} from '../thread_state.js' */

/** @param {{outgoing: Outgoing, thread: Thread}} props */
export function OutgoingMessage({ outgoing, thread }) {
  const { id, question, text, files = [], refused } = outgoing;
  const state = refused ? 'refused' : 'sending';
  if (question) {
    return h('article', { class: 'message assistant outgoing', ...marks(id, 'assistant', state) },
      h('h2', { class: 'hidden' }, TEXT.assistant),
      h('p', { class: 'status' }, refused ? null : h(Dots, null), h(Delivery, { outgoing, thread })));
  }
  return h('article', { class: 'message user outgoing', ...marks(id, 'user', state) },
    h('h2', { class: 'hidden' }, TEXT.you),
    h(Files, { files, addressOf: thread.fileAddress }),
    text ? h('div', { class: 'bubble', dir: 'auto' }, text) : null,
    h('p', { class: 'delivery', role: 'status' }, h(Delivery, { outgoing, thread })));
}

/** @param {{outgoing: Outgoing, thread: Thread}} props */
function Delivery({ outgoing: { id, error, refused }, thread }) {
  const reason = error && (error.message && error.code !== 'NETWORK' ? error.message : TEXT.refusals[error.code] ?? TEXT.refusals.HTTP);
  return [
    h('span', null, refused ? TEXT.notSent : error ? TEXT.sendingAgain : TEXT.sending, reason ? ` ${reason}` : ''),
    refused ? h('button', { type: 'button', class: 'quiet', 'data-testid': 'send-again', onClick: () => thread.sendAgain(id) }, TEXT.sendAgain) : null,
    error ? h('button', { type: 'button', class: 'quiet', 'data-testid': 'take-back', onClick: () => thread.takeBack(id) }, TEXT.takeBack) : null,
  ];
}
