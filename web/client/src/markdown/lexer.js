// Markdown as models write it: GitHub's, with formulas. Pure.

import { Lexer } from 'marked';

import { blockMath, blockMathStart, inlineMath, inlineMathStart } from './math.js';

/** @import {Token, TokensList} from 'marked' */

/** Definitions of link addresses. @typedef {TokensList['links']} Links */

const OPTIONS = /** @type {import('marked').MarkedOptions} */ (/** @type {unknown} */ ({
  gfm: true,
  extensions: { block: [blockMath], startBlock: [blockMathStart], inline: [inlineMath], startInline: [inlineMathStart] },
}));

/** So deep nobody nests by intention, and no stack overflows. */
const DEEPEST = 40;

/** The beginning of a line that nests lists and quotes for the sake of it. */
const ABYSS = new RegExp(`^(?:[ \\t]*(?:>|[-*+]|\\d{1,9}[.)])(?=[ \\t>])[ \\t]*){${DEEPEST}}`, 'm');

/**
 * @param {string} source
 * @param {Links} [links] definitions that hold before it
 * @returns {Token[]}
 */
export function lex(source, links) {
  if (!source) return [];
  if (ABYSS.test(source)) return [plain(source)];
  const lexer = new Lexer({ ...OPTIONS });
  Object.assign(lexer.tokens.links, links);
  try {
    return [...lexer.lex(source)].map((token) => shallow(token, DEEPEST));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return [plain(source)]; // the stack was not enough for it
  }
}

/** A text without any markup. @param {string} text @returns {Token} */
function plain(text) {
  return { type: 'paragraph', raw: text, text, tokens: [{ type: 'text', raw: text, text, escaped: false }] };
}

/** What is nested too deep is shown as it was written. @template {Token} T @param {T} token @param {number} left @returns {T} */
function shallow(token, left) {
  const children = 'items' in token ? token.items : 'tokens' in token ? token.tokens : undefined;
  if (!children?.length) return token;
  if (left === 0) return /** @type {T} */ (/** @type {unknown} */ ({ type: 'text', raw: token.raw, text: token.raw, escaped: false }));
  children.forEach((/** @type {Token} */ child, /** @type {number} */ index) => {
    children[index] = shallow(child, left - 1);
  });
  return token;
}

/** @param {readonly Token[]} tokens */
export function definitions(tokens) {
  /** @type {Links} */
  const links = {};
  for (const token of tokens) {
    if (token.type === 'def') links[token.tag] ??= { href: token.href, title: token.title };
  }
  return links;
}
