// What the end of a text that is being written is going to be, so that its marks are not seen first. Pure.
//
// Only what is shown is changed by it, never what is kept: the next delta may prove it wrong.

/** A link whose address is not complete: its words. An image likewise. */
const OPEN_LINK = /!?\[([^\]\n]*)\]\([^)\s]*$/;

/** An item that may become a task. */
const OPEN_TASK = /(^|\n)([ \t]*(?:[-*+]|\d+[.)]) )\[[ xX]?\]?$/;

/** The first two lines of a table, the second not complete. */
const OPEN_TABLE = /(?:^|\n) {0,3}(\|[^\n]*\|)[ \t]*\n {0,3}\|?[-:| \t]*$/;

/**
 * @param {string} source the part of a text that is not finished
 * @returns {string} the same, with the ends that can be told
 */
export function foresee(source) {
  const table = OPEN_TABLE.exec(source);
  if (table) return withDelimiters(source, table[1]);
  const open = source.slice(lastBreak(source));
  // In a listing nothing is a mark.
  if (/^ {0,3}(?:```|~~~)/m.test(source) || /^(?: {4}|\t)/.test(open)) return source;
  return source.slice(0, source.length - open.length) + closed(open);
}

/** Where the last paragraph begins. @param {string} source */
function lastBreak(source) {
  const at = source.lastIndexOf('\n\n');
  return at < 0 ? 0 : at + 2;
}

/** @param {string} source @param {string} head */
function withDelimiters(source, head) {
  const columns = head.replace(/\\\|/g, '').split('|').length - 2;
  const begin = source.lastIndexOf('\n') + 1;
  return `${source.slice(0, begin)}|${'---|'.repeat(Math.max(1, columns))}`;
}

/** @param {string} text one paragraph */
function closed(text) {
  const code = text.replace(/\\./g, '  ').match(/`+/g) ?? [];
  if (code.length % 2) {
    // After a mark that was only just begun there is nothing to close.
    return text.endsWith('`') ? text.slice(0, -(/`+$/.exec(text)?.[0].length ?? 0)) : text + code[code.length - 1];
  }
  return ['**', '~~'].reduce(closeMark, text.replace(OPEN_LINK, '$1').replace(OPEN_TASK, '$1$2'));
}

/** @param {string} text @param {string} mark */
function closeMark(text, mark) {
  const plain = text.replace(/\\./g, '  ').replace(/`[^`]*`/g, (code) => ' '.repeat(code.length));
  const count = plain.split(mark).length - 1;
  if (count % 2 === 0) return text;
  const at = plain.lastIndexOf(mark);
  const after = text.slice(at + mark.length);
  if (!after.trim()) return text.slice(0, at) + after;
  if (/^\s/.test(after) || /[\p{L}\p{N}]$/u.test(plain.slice(0, at))) return text; // it opens nothing, or not for sure
  const half = text.endsWith(mark[0]) ? text.slice(0, -1) : text; // of the mark that closes
  return `${half.trimEnd()}${mark}`;
}
