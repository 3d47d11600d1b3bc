// Tokens that were parsed again and came out the same keep their identity, so that a view passes them by. Pure.

/** @import {Token, Tokens} from 'marked' */
/** @import {LongToken} from './long.js' */

/** It may define where a link leads that stands before it. */
const DEFINITION = ']:';

/**
 * @param {readonly Token[]} before
 * @param {readonly Token[]} after
 * @param {string} source of `after`
 * @returns {readonly Token[]} `after`, with what it has in common with `before`
 */
export function share(before, after, source) {
  if (source.includes(DEFINITION)) return after;
  return after.map((token, index) => shared(before[index], token));
}

/** @template {Token} T @param {Token|undefined} before @param {T} after @returns {T} */
function shared(before, after) {
  if (before?.type !== after.type) return after;
  if (after.type === 'long') return { ...after, parts: last(partsOf(before), partsOf(after)) };
  // A table of no rows and one of two lines of text have the same text; a list becomes loose by what follows it.
  if (after.type === 'list') return { ...after, items: items(/** @type {Tokens.List} */ (before), /** @type {Tokens.List} */ (/** @type {Token} */ (after))) };
  if (after.type === 'table') return { ...after, rows: rows(/** @type {Tokens.Table} */ (before), /** @type {Tokens.Table} */ (/** @type {Token} */ (after))) };
  return same(before, after) ? /** @type {T} */ (before) : after;
}

/** Where there are tabs the lexer can give one source two texts. @param {Token} before @param {Token} after */
const same = (before, after) => before.raw === after.raw && textOf(before) === textOf(after);

/** @param {Token} token */
const textOf = (token) => ('text' in token ? token.text : null);

/** @param {Token} token */
const partsOf = (token) => /** @type {LongToken} */ (/** @type {unknown} */ (token)).parts;

/** Only the last part is parsed again. @param {readonly Token[]} before @param {readonly Token[]} after */
function last(before, after) {
  const end = after.length - 1;
  return after.map((part, index) => (index === end ? shared(before[index], part) : part));
}

/** @param {Tokens.List} before @param {Tokens.List} after */
function items(before, after) {
  return after.items.map((item, index) => {
    const known = before.items[index];
    return known && same(known, item) && known.loose === item.loose && known.task === item.task ? known : item;
  });
}

/** @param {Tokens.Table} before @param {Tokens.Table} after */
function rows(before, after) {
  return after.rows.map((row, index) => {
    const known = before.rows[index];
    return known?.length === row.length && known.every(({ text, align }, i) => text === row[i].text && align === row[i].align) ? known : row;
  });
}
