// Formulas in Markdown, as models write them: \( \), $ $ in a line; $$ $$, \[ \] on their own. Pure.
//
// Neither kind goes over an empty line, so a formula that is never closed spoils one paragraph at most. A
// dollar is mostly money: one that opens has no space after it, one that closes has none before it and no
// digit after it, and what is between must not read like words.

/**
 * @typedef {object} MathToken
 * @property {'math'} type
 * @property {string} raw
 * @property {string} text TeX
 * @property {boolean} display
 * @property {boolean} open it has no end yet
 */

const BLOCK = /^ {0,3}(?:\$\$((?:(?!\n[ \t]*\n)[^$])+?)\$\$|\\\[((?:(?!\n[ \t]*\n)[\s\S])+?)\\\])[ \t]*(?=\n|$)\n?/;

/** At the end of the text: it is still being written. */
const OPEN_BLOCK = /^ {0,3}(?:\$\$(?=[ \t]*\n)|\\\[)((?:(?!\n[ \t]*\n)[\s\S])*)$/;

/** It begins like a formula and looks like other blocks until it is closed. */
const UNDECIDED = /^ {0,3}\$\$(?:(?!\n[ \t]*\n)[^$])*\$?$/;

const BLOCK_START = /\n {0,3}(?:\$\$|\\\[)/;

const INLINE = /^(?:\\\(((?:(?!\n[ \t]*\n)[\s\S])+?)\\\)|\\\[((?:(?!\n[ \t]*\n)[\s\S])+?)\\\]|\$\$((?:(?!\n[ \t]*\n)[^$])+?)\$\$)/;

const DOLLARS = /^\$((?:\\[\s\S]|(?!\n[ \t]*\n)[^$\\])+)\$(?![0-9A-Za-z$])/;

const INLINE_START = /\$|\\[([]/;

/** A word, where nothing says that it is a formula. */
const PROSE = /(?:^|\s)[^\W\d_]{2,}(?=[\s,.;:!?]|$)/;
const FORMULA_SIGN = /[\\^_=+{}<>]/;

/** @param {string} text */
function isFormula(text) {
  return !/^\s|\s$/.test(text) && (FORMULA_SIGN.test(text) || !PROSE.test(text));
}

/** @param {string} raw @param {string} text @param {boolean} display @param {boolean} [open] @returns {MathToken} */
function token(raw, text, display, open = false) {
  return { type: 'math', raw, text: text.trim(), display, open };
}

/** @param {string} src @returns {MathToken|undefined} */
export function blockMath(src) {
  const closed = BLOCK.exec(src);
  if (closed) return token(closed[0], closed[1] ?? closed[2], true);
  const open = OPEN_BLOCK.exec(src);
  return open ? token(open[0], open[1], true, true) : undefined;
}

/** Whether a text that goes on may turn out to be a formula from its beginning. @param {string} src */
export function mayBecomeMath(src) {
  return UNDECIDED.test(src);
}

/** @param {string} src @returns {number|undefined} where a block may begin */
export function blockMathStart(src) {
  const found = BLOCK_START.exec(src);
  return found ? found.index + 1 : undefined;
}

/** @param {string} src @returns {MathToken|undefined} */
export function inlineMath(src) {
  const marked = INLINE.exec(src);
  if (marked) return token(marked[0], marked[1] ?? marked[2] ?? marked[3], marked[1] === undefined);
  const dollars = DOLLARS.exec(src);
  return dollars && isFormula(dollars[1]) ? token(dollars[0], dollars[1], false) : undefined;
}

/** @param {string} src @returns {number|undefined} */
export function inlineMathStart(src) {
  return INLINE_START.exec(src)?.index;
}
