// What a search found. DOM.

import { h } from 'preact';

import '../styles/search_results.css';
import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';

/** @import {App} from '../app.js' */
/** @import {Hit} from '../types.js' */

/** @param {{app: App, open: (id: string, message: string) => (event: MouseEvent) => void}} props */
export function SearchResults({ app, open }) {
  const { hits, state } = app.search.found.value;
  return h('div', { class: 'results', 'data-testid': 'results', 'data-state': state },
    h('p', { class: 'empty', role: 'status' }, words(state, hits.length)),
    h('ul', null, hits.map((hit) => h('li', { key: hit.message, 'data-testid': 'hit', 'data-id': hit.message },
      h('a', { href: app.hrefOf(hit.thread, hit.message), onClick: open(hit.thread, hit.message) }, h(HitText, { hit }))))));
}

/** @param {{hit: Hit}} props */
function HitText({ hit: { title, role, at, snippet } }) {
  return [
    h('span', { class: 'title', dir: 'auto' }, title || TEXT.untitled),
    h('span', { class: 'snippet', dir: 'auto' }, snippet.map(({ text, hit }) => (hit ? h('mark', null, text) : text))),
    h('span', { class: 'where' }, MORE.foundIn[role], ' · ', MORE.date(at)),
  ];
}

/** @param {string} state @param {number} count */
function words(state, count) {
  if (state === 'failed') return MORE.searchFailed;
  if (state === 'asking') return count ? MORE.found(count) : MORE.searching;
  return count ? MORE.found(count) : MORE.searchNothing;
}
