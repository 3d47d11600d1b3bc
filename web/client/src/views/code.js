// Listings: coloured once they are complete, with a button that copies them. DOM.

import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import style from '../styles/highlight.css?url';
import { TEXT } from '../text.js';
import { CopyButton } from './copy_button.js';
import { later } from './later.js';
import { memo } from './memo.js';
import { onDemand } from './on_demand.js';

/** @import {Piece} from '../markdown/highlight.js' */

/** Colouring takes a millisecond for each thousand characters, and cannot be done in slices. */
const LONGEST = 24_000;

/** Asked for by the first listing that is complete. */
const load = onDemand(async () => (await import('./highlighter.js')).highlighter(), style);

/**
 * @param {string} text
 * @param {string|undefined} language
 * @param {boolean} complete
 * @returns {readonly Piece[]|null} null: not coloured, or not yet
 */
function useColours(text, language, complete) {
  const [coloured, setColoured] = useState(/** @type {{text: string, language: string, pieces: Piece[]|null}|null} */ (null));
  const wanted = complete && language !== undefined && text.length <= LONGEST;
  useEffect(() => {
    if (!wanted) return undefined;
    let cancel = () => {};
    let gone = false; // set by leaving, so that what loads late does nothing
    void load().then((highlight) => {
      if (!gone) cancel = later(() => setColoured({ text, language, pieces: highlight(text, language) }));
    });
    return () => {
      gone = true;
      cancel();
    };
  }, [wanted, text, language]);
  return coloured?.text === text && coloured.language === language ? coloured.pieces : null;
}

export const Code = memo(
  /** @param {{parts: readonly string[], language: string|undefined, complete: boolean}} props parts: a long one is drawn in parts */
  ({ parts, language, complete }) => {
    const text = parts.length === 1 ? parts[0] : parts.join('\n');
    const pieces = useColours(text, language, complete);
    return h('figure', { class: 'code', 'data-testid': 'code', 'data-coloured': pieces !== null },
      h('figcaption', null, h('span', null, language ?? TEXT.code), h(CopyButton, { text, label: TEXT.copyCode, testid: 'copy-code' })),
      h('pre', { tabIndex: 0 }, parts.length === 1
        ? h('code', null, pieces?.map(({ text: piece, kind }) => (kind ? h('span', { class: `hl-${kind}` }, piece) : piece)) ?? text)
        : h('code', null, parts.map((part, index) => h(Lines, { key: index, text: part })))));
  });

const Lines = memo(
  /** @param {{text: string}} props */
  ({ text }) => h('div', { class: 'lines' }, text));
