// What a search found. DOM.

import { h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';

/** @import {App} from '../app.js' */
/** @import {Hit} from '../types.js' */

/** @param {{app: App, open: (id: string, message: string) => (event: MouseEvent) => void}} props */
export function SearchResults({ app, open }) {
  const { hits, state } = app.search.found.value;
  const list = useRef(/** @type {HTMLElement|null} */ (null));
  useKeys(app, list);
  return h('div', { class: 'results', 'data-testid': 'results', 'data-state': state },
    h('p', { class: 'empty', role: 'status' }, words(state, hits.length)),
    h('ul', { ref: list }, hits.map((hit) => h('li', { key: hit.message, 'data-testid': 'hit', 'data-id': hit.message },
      h('a', { href: app.hrefOf(hit.thread, hit.message), onClick: open(hit.thread, hit.message) }, h(HitText, { hit }))))));
}

/**
 * From the box of the search into what it found, and back.
 * @param {App} app @param {{current: HTMLElement|null}} list
 */
function useKeys(app, list) {
  const { found: { value: { state } }, entered } = app.search;
  const links = () => /** @type {HTMLElement[]} */ ([...(list.current?.querySelectorAll('a') ?? [])]);
  useEffect(() => {
    if (!entered.value || state === 'asking') return;
    entered.value = false;
    links()[0]?.click();
  }, [entered.value, state]);
  useEffect(() => {
    const box = /** @type {HTMLElement|null} */ (document.querySelector('[data-testid="search"]'));
    const around = box?.closest('nav');
    /** @param {KeyboardEvent} event */
    const onKeyDown = (event) => {
      const places = [box, ...links()];
      const at = places.indexOf(/** @type {HTMLElement} */ (event.target));
      if (at < 0 || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      /** @type {Record<string, () => void>} */
      const keys = {
        ArrowDown: () => places[at + 1]?.focus(),
        ArrowUp: () => places[at - 1]?.focus(),
        Escape: () => {
          box?.focus();
          app.search.look('');
        },
      };
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      event.stopPropagation(); // Escape would close the list of a phone
      act();
    };
    around?.addEventListener('keydown', onKeyDown);
    return () => around?.removeEventListener('keydown', onKeyDown);
  }, [app]);
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
