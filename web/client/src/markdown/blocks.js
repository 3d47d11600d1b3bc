// Markdown of a text that grows: only its tail is parsed again. Pure.
//
// Whether a line begins a block may change while it is written ("#" and then "#tag"), and the lexer lets an
// underline decide on the line above it ("-" and then "- item"). So the last blocks stay open; what stands
// before them can change no more. A link whose reference is defined later in the text stays as it was
// written.

import { Lexer } from 'marked';

/** @import {Token, TokensList} from 'marked' */

/** Finished blocks are kept in groups of this size, so that a view compares groups, not thousands of blocks. */
const GROUP = 32;

/** With two, one random text in some thousands was cut wrongly; with three, none in 80 000. */
const OPEN_BLOCKS = 3;

/**
 * @typedef {object} Blocks
 * @property {string} head the text of the finished blocks
 * @property {readonly (readonly Token[])[]} groups finished blocks; a full group never changes
 * @property {readonly Token[]} tail
 * @property {TokensList['links']} links definitions in `head`
 */

/** @type {Blocks} */
export const NO_BLOCKS = Object.freeze({ head: '', groups: [], tail: [], links: {} });

/**
 * @param {Blocks} blocks of an earlier state of the text
 * @param {string} text
 * @returns {Blocks}
 */
export function growBlocks(blocks, text) {
  const source = normalised(text);
  const { head, groups, links } = source.startsWith(blocks.head) ? blocks : NO_BLOCKS;
  const tail = lex(source.slice(head.length), links);
  const keep = openFrom(tail);
  const finished = tail.slice(0, keep);
  const raw = finished.map((token) => token.raw).join('');
  if (keep === 0 || !source.startsWith(raw, head.length)) return { head, groups, tail, links };
  return {
    head: head + raw,
    groups: addToGroups(groups, finished),
    tail: tail.slice(keep),
    links: finished.some(({ type }) => type === 'def') ? { ...links, ...definitions(finished) } : links,
  };
}

/** As the lexer does it; a CR at the end may be half a line end. @param {string} text */
function normalised(text) {
  return text.includes('\r') ? text.replace(/\r$/, '').replace(/\r\n?/g, '\n') : text;
}

/** @param {string} source @param {TokensList['links']} links @returns {Token[]} */
function lex(source, links) {
  const lexer = new Lexer({ gfm: true });
  Object.assign(lexer.tokens.links, links);
  return [...lexer.lex(source)];
}

/** Index of the first block that may still change. @param {readonly Token[]} tokens */
function openFrom(tokens) {
  let open = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    if (tokens[i].type !== 'space') open += 1;
    if (open === OPEN_BLOCKS) return i;
  }
  return 0;
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

/** @param {readonly Token[]} tokens */
function definitions(tokens) {
  /** @type {TokensList['links']} */
  const links = {};
  for (const token of tokens) {
    if (token.type === 'def') links[token.tag] ??= { href: token.href, title: token.title };
  }
  return links;
}
