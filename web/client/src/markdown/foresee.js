// What the end of a text that is being written is going to be, so that its marks are not seen first. Pure.
//
// Only what is shown is changed by it, never what is kept: the next delta may prove it wrong. A line that
// has nothing but marks yet may become anything ("-" under a paragraph is the underline of a heading, or
// an item, or the end of a table), so it waits for its first word.

/** A link whose address is not complete: its words. An image likewise. */
const OPEN_LINK = /!?\[([^\]\n]*)\]\([^)\s]*$/;

/** An item that may become a task. */
const OPEN_TASK = /(^|\n)([ \t]*(?:[-*+]|\d+[.)]) )\[[ xX]?\]?[ \t]*$/;

/** The tag of a line break, at most so far. */
const OPEN_BREAK = /<(?:br?\s*\/?)?$/i;

/** What stands before a block in a line: quotes and items around it. */
const AROUND = '[ \\t>]*(?:(?:[-+*]|\\d{1,9}[.)])[ \\t]+)*';

/** Nothing but marks. */
const MARKS = /^(?=.*\S)[ \t>]*(?:(?:[-+*=_~#]+|\d{1,9}[.)]|\|)[ \t]*)*(?:\d{1,9})?$/;

const FENCE = new RegExp(`^${AROUND}(\`{3,}|~{3,})([^\\n]*)$`);

/** A table's first line; models set its words apart from the bars, formulas do not (`|x|`). */
const TABLE_HEAD = new RegExp(`^(${AROUND})\\|[ \\t].*$`);

/** A table's second line, complete or not. */
const DELIMITERS = /^[ \t>]*\|?[-:| \t]*$/;

/**
 * @param {string} source the part of a text that is not finished
 * @returns {string} the same, with the ends that can be told
 */
export function foresee(source) {
  const at = source.lastIndexOf('\n') + 1;
  const line = source.slice(at);
  const before = source.slice(0, at).split('\n').slice(0, -1);
  const { open, end } = fences(before);
  // In a listing nothing is a mark, but for what may be its end.
  if (open) return new RegExp(`^[ \\t>]*[${open}]+[ \\t]*$`).test(line) ? source.slice(0, at) : source;
  if (FENCE.test(line)) return source.slice(0, at); // its language has no end yet
  const table = tableBefore(before.slice(end), line);
  if (table === 'head') return withDelimiters(before.slice(0, -1), before[before.length - 1]);
  if (MARKS.test(line)) return source.slice(0, at);
  if (table === 'none' && TABLE_HEAD.test(line)) return withDelimiters(before, closed(line));
  const from = lastBreak(before, end);
  const begin = before.slice(0, from).reduce((sum, { length }) => sum + length + 1, 0);
  if (/^(?: {4}|\t)/.test(source.slice(begin))) return source;
  return source.slice(0, begin) + closed(source.slice(begin));
}

/**
 * The listing that is open at the end of some lines, and where the text after the last one that is closed begins.
 * @param {readonly string[]} lines
 */
function fences(lines) {
  let open = '';
  let end = 0;
  lines.forEach((line, index) => {
    const [, fence, rest] = FENCE.exec(line) ?? [];
    if (!fence) return;
    if (!open) {
      if (fence[0] === '~' || !rest.includes('`')) open = fence;
    } else if (fence.startsWith(open) && !rest.trim()) {
      open = '';
      end = index + 1;
    }
  });
  return { open: open[0] ?? '', end };
}

/** Where the last paragraph begins: after an empty line, or a rule. @param {readonly string[]} lines @param {number} end of the last listing */
function lastBreak(lines, end) {
  return Math.max(end, lines.findLastIndex((line) => !line.trim() || MARKS.test(line)) + 1);
}

/**
 * What a line goes on with: the first line of a table, more of it, or none.
 * @param {readonly string[]} lines @param {string} line @returns {'head'|'rows'|'none'}
 */
function tableBefore(lines, line) {
  const block = lines.slice(lines.findLastIndex((one) => !one.trim()) + 1);
  if (block.some((one, index) => index > 0 && one.includes('-') && one.includes('|') && DELIMITERS.test(one))) return 'rows';
  const head = block.at(-1) ?? '';
  return DELIMITERS.test(line) && /^[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*\|.*\|[ \t]*$/.test(head) ? 'head' : 'none';
}

/** A table of its first line. @param {readonly string[]} before @param {string} head */
function withDelimiters(before, head) {
  const cells = head.replace(/\\\|/g, '').trimEnd().replace(/\|$/, '').split('|').length - 1;
  const around = (TABLE_HEAD.exec(head)?.[1] ?? /^[ \t>]*/.exec(head)?.[0] ?? '').replace(/[^ \t>]/g, ' ');
  return [...before, head, `${around}|${'---|'.repeat(Math.max(1, cells))}`].join('\n');
}

/** @param {string} text one paragraph */
function closed(text) {
  const code = text.replace(/\\./g, '  ').match(/`+/g) ?? [];
  if (code.length % 2) {
    // After a mark that was only just begun there is nothing to close.
    return text.endsWith('`') ? text.slice(0, -(/`+$/.exec(text)?.[0].length ?? 0)) : text + code[code.length - 1];
  }
  return ['**', '~~', '*'].reduce(closeMark, text.replace(OPEN_LINK, '$1').replace(OPEN_TASK, '$1$2').replace(OPEN_BREAK, ''));
}

/** @param {string} text @param {string} mark */
function closeMark(text, mark) {
  const plain = text.replace(/\\./g, '  ').replace(/`[^`]*`/g, (code) => ' '.repeat(code.length))
    // Of a star alone: not those of items, of sums, and of what is bold.
    .replace(mark === '*' ? /\*\*|(?<!\S)\*(?=\s)/g : /$^/g, (other) => ' '.repeat(other.length));
  const count = plain.split(mark).length - 1;
  if (count % 2 === 0) return text;
  const at = plain.lastIndexOf(mark);
  const after = text.slice(at + mark.length);
  if (!after.trim()) return text.slice(0, at) + after;
  if (/^\s/.test(after) || /[\p{L}\p{N}]$/u.test(plain.slice(0, at))) return text; // it opens nothing, or not for sure
  const half = mark.length > 1 && text.endsWith(mark[0]) ? text.slice(0, -1) : text; // of the mark that closes
  return `${half.trimEnd()}${mark}`;
}
