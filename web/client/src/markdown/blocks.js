// Markdown of a text that grows: only its tail is parsed again. Pure.
//
// Whether a line begins a block may change while it is written ("#" and then "#tag"), and the lexer lets an
// underline decide on the line above it ("-" and then "- item"). So the last blocks stay open; what stands
// before them can change no more. A link whose reference is defined later in the text stays as it was
// written. A single block that grows long, a list, a table, a listing, is finished in parts: see long.js.

import { foresee } from './foresee.js';
import { definitions, lex } from './lexer.js';
import { LONG, contextOf, continued, joined, split } from './long.js';
import { mayBecomeMath } from './math.js';
import { share } from './share.js';

/** @import {Token} from 'marked' */
/** @import {Links} from './lexer.js' */
/** @import {Long} from './long.js' */

/** Finished blocks are kept in groups of this size, so that a view compares groups, not thousands of blocks. */
export const GROUP = 64;

/** With two, one random text in some thousands was cut wrongly; with three, none in 80 000. */
const OPEN_BLOCKS = 3;

/**
 * @typedef {object} Blocks
 * @property {number} length of the text it stands for
 * @property {string} head the text of the finished blocks
 * @property {readonly (readonly Token[])[]} groups finished blocks; a full group never changes
 * @property {Long|null} long the finished parts of the block that the tail goes on with
 * @property {readonly Token[]} tail
 * @property {Links} links definitions in `head`
 */

/** @type {Blocks} */
export const NO_BLOCKS = Object.freeze({ length: 0, head: '', groups: [], long: null, tail: [], links: {} });

/**
 * @param {Blocks} blocks of an earlier state of the text
 * @param {string} text
 * @returns {Blocks}
 */
export function growBlocks(blocks, text) {
  const source = normalised(text);
  let next = { ...(source.startsWith(blocks.head) ? blocks : NO_BLOCKS), length: text.length };
  for (;;) {
    const rest = source.slice(next.head.length);
    const tokens = next.long ? continued(next.long, rest, next.links) : lex(rest, next.links);
    const finished = finish(next, tokens, source, rest) ?? finishPart(next, tokens, source, rest);
    if (!finished) return { ...next, tail: share(blocks.tail, visible(next.long ? joined(next.long, tokens) : tokens), rest) };
    next = finished;
  }
}

/** All blocks of the text, in order. @param {Blocks} blocks @returns {Token[]} */
export function allBlocks({ groups, tail }) {
  return [...groups.flat(), ...tail];
}

/**
 * The tail as it is shown. While the text grows, or is not read to its end yet, its last marks are seen as what
 * they are going to mean.
 * @param {Blocks} blocks
 * @param {string} text
 * @param {boolean} done it grows no more
 * @returns {readonly Token[]}
 */
export function shownTail({ length, head, long, tail, links }, text, done) {
  if (done && length === text.length) return tail;
  const rest = normalised(text.slice(0, length)).slice(head.length);
  const context = long ? contextOf(long) : '';
  const seen = foresee(context + rest);
  if (seen === context + rest) return tail;
  const source = seen.slice(context.length);
  return share(tail, visible(long ? joined(long, continued(long, source, links)) : lex(source, links)), source);
}

/** As the lexer does it; a CR at the end may be half a line end. @param {string} text */
function normalised(text) {
  return text.includes('\r') ? text.replace(/\r$/, '').replace(/\r\n?/g, '\n') : text;
}

/**
 * The blocks that cannot change any more.
 * @param {Blocks} blocks @param {Token[]} tokens @param {string} source @param {string} rest @returns {Blocks|null} null: there are none
 */
function finish(blocks, tokens, source, rest) {
  // What stands before a long block is settled; waiting for more blocks would parse the long one again and again.
  const keep = rest.length > LONG
    ? Math.max(openFrom(tokens, OPEN_BLOCKS), openFrom(tokens, 1))
    : Math.min(openFrom(tokens, OPEN_BLOCKS), undecided(tokens, rest));
  const finished = tokens.slice(0, keep);
  const raw = finished.map((token) => token.raw).join('');
  if (keep === 0 || !raw || !rest.startsWith(raw)) return null;
  const done = blocks.long ? joined(blocks.long, finished) : finished;
  return {
    ...blocks,
    head: source.slice(0, blocks.head.length + raw.length), // shares the memory of the text
    groups: addToGroups(blocks.groups, visible(done)),
    long: null,
    links: finished.some(({ type }) => type === 'def') ? { ...blocks.links, ...definitions(finished) } : blocks.links,
  };
}

/** A part of the one long block that is left. @param {Blocks} blocks @param {Token[]} tokens @param {string} source @param {string} rest @returns {Blocks|null} */
function finishPart(blocks, tokens, source, rest) {
  const cut = rest.length > LONG ? split(blocks.long, tokens, rest, blocks.links) : null;
  if (!cut) return null;
  return {
    ...blocks,
    head: source.slice(0, blocks.head.length + cut.length),
    groups: cut.finished.length ? addToGroups(blocks.groups, visible(cut.finished)) : blocks.groups,
    long: cut.long,
  };
}

/** Index of the first block that may still change. @param {readonly Token[]} tokens @param {number} count of open blocks */
function openFrom(tokens, count) {
  let open = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    if (tokens[i].type !== 'space') open += 1;
    if (open === count) return i;
  }
  return 0;
}

/** Index of the first block that, with all after it, may turn out to be one formula. @param {readonly Token[]} tokens @param {string} rest */
function undecided(tokens, rest) {
  if (!rest.includes('$$')) return tokens.length;
  let at = 0;
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'paragraph' && mayBecomeMath(rest.slice(at))) return index;
    at += token.raw.length;
  }
  return tokens.length;
}

/** @param {readonly Token[]} tokens */
function visible(tokens) {
  return tokens.filter(({ type }) => type !== 'space');
}

/** @param {Blocks['groups']} groups @param {readonly Token[]} tokens */
function addToGroups(groups, tokens) {
  const result = [...groups];
  for (const token of tokens) {
    const last = result.at(-1);
    if (last && last.length < GROUP) result[result.length - 1] = [...last, token];
    else result.push([token]);
  }
  return result;
}
