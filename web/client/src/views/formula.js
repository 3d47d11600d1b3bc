// Formulas, drawn by KaTeX, which is loaded with the first one. DOM.

import style from 'katex/dist/katex.min.css?url';
import { h } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import { later } from './later.js';
import { memo } from './memo.js';
import { onDemand } from './on_demand.js';

/** @typedef {typeof import('katex').default} Katex */

/** @type {Katex|undefined} */
let katex;

const load = onDemand(async () => { katex = (await import('katex')).default; }, style);

/** Drawn before: it is drawn again at once, so that nothing jumps. @type {Map<string, HTMLElement>} the last used ones last */
const drawn = new Map();
const KEPT = 500;

/**
 * Elements are made one by one: no text is parsed as markup. What is no TeX stays as it was written.
 * @param {string} text @param {boolean} display @param {string} source as it was written
 */
function draw(text, display, source) {
  const key = `${display ? '$$' : '$'}${text}`;
  const known = drawn.get(key);
  const element = known ?? document.createElement('span');
  try {
    if (!known) katex?.render(text, element, { displayMode: display, throwOnError: true, strict: false, trust: false, maxExpand: 200, maxSize: 50 });
  } catch {
    element.textContent = source;
  }
  drawn.delete(key);
  drawn.set(key, element);
  for (const [oldest] of drawn) {
    if (drawn.size <= KEPT) break;
    drawn.delete(oldest);
  }
  return element.cloneNode(true);
}

export const Formula = memo(
  /** @param {{text: string, display: boolean, open: boolean, source: string}} props */
  ({ text, display, open, source }) => {
    const place = useRef(/** @type {HTMLElement|null} */ (null));
    useLayoutEffect(() => {
      if (open) return undefined;
      const put = () => {
        place.current?.replaceChildren(draw(text, display, source));
        if (place.current) place.current.className = 'drawn';
      };
      if (katex && drawn.has(`${display ? '$$' : '$'}${text}`)) {
        put();
        return undefined;
      }
      let cancel = () => {};
      let gone = false; // set by leaving, so that what loads late does nothing
      void load().then(() => {
        if (!gone) cancel = later(put);
      });
      return () => {
        gone = true;
        cancel();
      };
    }, [text, display, open]);
    // What is drawn is not among the children that are compared, so a change must begin anew.
    return h(display ? 'div' : 'span', { key: open ? 'open' : text, class: `formula ${display ? 'display' : ''}`, 'data-testid': 'formula', dir: 'ltr', tabIndex: display ? 0 : undefined },
      h('span', { ref: place, class: 'tex' }, source));
  });
