// Tables. A long one is drawn in parts whose columns stand below each other. DOM.

import { h } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { directionOf } from '../markdown/inline.js';
import { memo } from './memo.js';

/** @import {Token, Tokens} from 'marked' */
/** @import {ComponentChildren} from 'preact' */

/** @typedef {(tokens: readonly Token[]|undefined) => ComponentChildren} Inlines */

const Row = memo(
  /** @param {{tag: 'th'|'td', cells: Tokens.TableCell[], inlines: Inlines}} props */
  ({ tag, cells, inlines }) =>
    h('tr', null, cells.map((cell) => h(tag, { class: cell.align ? `align-${cell.align}` : undefined, dir: directionOf(cell.text) }, inlines(cell.tokens)))));

/** @param {{parts: readonly Tokens.Table[], inlines: Inlines}} props one part for most */
export function Table({ parts, inlines }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const widths = useWidths(box, parts.length > 1);
  const [{ header }] = parts;
  return h('div', { class: 'table', tabIndex: 0, ref: box, dir: directionOf(header.map(({ text }) => text).join(' ')) },
    parts.map((part, index) => h(Part, {
      key: index, rows: part.rows, inlines, header: index === 0 ? header : null, widths: index === 0 ? null : widths,
    })));
}

const Part = memo(
  /** @param {{rows: Tokens.TableCell[][], inlines: Inlines, header: Tokens.TableCell[]|null, widths: readonly number[]|null}} props */
  ({ rows, inlines, header, widths }) => {
    const table = h('table', null,
      widths ? h('colgroup', null, widths.map((width) => h('col', { style: { width: `${width}px` } }))) : null,
      header ? h('thead', null, h(Row, { tag: 'th', cells: header, inlines })) : null,
      h('tbody', null, rows.map((cells, index) => h(Row, { key: index, tag: 'td', cells, inlines }))));
    return widths ? h('div', { class: 'more', style: { width: `${widths.reduce((sum, width) => sum + width, 0)}px` } }, table) : table;
  });

/**
 * The widths of the columns of the first part, for the others.
 * @param {{current: HTMLElement|null}} box @param {boolean} wanted
 */
function useWidths(box, wanted) {
  const [widths, setWidths] = useState(/** @type {readonly number[]} */ ([]));
  useLayoutEffect(() => {
    const first = box.current?.querySelector('table');
    if (!wanted || !first) return undefined;
    const measure = () => {
      const next = [...first.querySelectorAll('th')].map((cell) => cell.getBoundingClientRect().width);
      setWidths((before) => (before.length === next.length && next.every((width, i) => width === before[i]) ? before : next));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(first);
    return () => observer.disconnect();
  }, [wanted]);
  return widths;
}
