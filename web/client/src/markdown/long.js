// Blocks that grow long, finished in parts, so that no step of a growing text costs more than another. Pure.
//
// A part is a token of the block's own kind: a list of some of the items, a table of some of the rows, a
// listing of some of the lines. What goes on is parsed with what it needs of the beginning: a table's rows
// with its head, a listing's lines by its fence. Parts know nothing of each other: in a very long list each
// decides by itself whether its items stand apart.

import { lex } from './lexer.js';

/** @import {Token, Tokens} from 'marked' */
/** @import {Links} from './lexer.js' */

/** Characters of a block that is finished in parts. Of some texts the lexer's time grows with the square. */
export const LONG = 4_096;

/** A block that has no good place for a cut is cut anyway. */
const CUT_ANYWAY = 4 * LONG;

/** Items and rows at the end that may still change. */
const OPEN_ITEMS = 2;

/** @typedef {'list'|'table'|'code'|'paragraph'} LongKind */

/**
 * @typedef {object} Long
 * @property {LongKind} kind
 * @property {readonly Token[]} parts finished
 * @property {string} head what its next lines are parsed with: a table's first two lines, a listing's fence
 */

/**
 * A long block as it is shown.
 * @typedef {{type: 'long', kind: LongKind, parts: readonly Token[], raw: string}} LongToken
 */

/** @typedef {{finished: readonly Token[], long: Long|null, length: number}} Cut length of the text that is finished */

/**
 * The tokens of a text that goes on with a long block; the first is its next part, if there is one.
 * @param {Long} long @param {string} rest @param {Links} links
 * @returns {Token[]}
 */
export function continued({ kind, head, parts }, rest, links) {
  if (kind === 'code') return continuedCode(head, rest, links);
  if (kind === 'list') return continuedList(parts, lex(rest, links));
  if (kind === 'paragraph') return lex(rest, links);
  const [table, ...others] = lex(head + rest, links);
  return [{ ...table, raw: table.raw.slice(head.length) }, ...others];
}

/** The lines that tell what its next ones are. @param {Long} long */
export function contextOf({ kind, head }) {
  return kind === 'code' ? `${head}\n` : head;
}

/** Numbers go on, though each item may say "1.". @param {readonly Token[]} parts @param {Token[]} tokens @returns {Token[]} */
function continuedList(parts, tokens) {
  const [first, ...others] = tokens;
  if (!first || !isPart({ kind: 'list', parts }, first)) return tokens;
  const items = parts.reduce((sum, part) => sum + listOf(part).items.length, 0);
  return [{ ...listOf(first), start: Number(listOf(parts[0]).start) + items }, ...others];
}

/** @param {string} fence @param {string} rest @param {Links} links @returns {Token[]} */
function continuedCode(fence, rest, links) {
  const end = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*(?:\\n|$)`, 'm').exec(rest);
  const text = end ? rest.slice(0, end.index) : rest;
  const raw = end ? rest.slice(0, end.index + end[0].length) : rest;
  return [/** @type {Token} */ ({ type: 'code', raw, text: text.replace(/\n$/, '') }), ...(end ? lex(rest.slice(raw.length), links) : [])];
}

/**
 * The long block that a part of the text completes, before what follows it.
 * @param {Long} long @param {readonly Token[]} tokens those of `continued`
 * @returns {Token[]}
 */
export function joined(long, tokens) {
  const goesOn = isPart(long, tokens[0]);
  const parts = goesOn ? [...long.parts, tokens[0]] : long.parts;
  const token = { type: 'long', kind: long.kind, parts, raw: '' };
  return [/** @type {Token} */ (/** @type {unknown} */ (token)), ...tokens.slice(goesOn ? 1 : 0)];
}

/** @param {Pick<Long, 'kind'|'parts'>} long @param {Token|undefined} token */
function isPart({ kind, parts }, token) {
  if (token?.type !== kind) return false;
  return kind !== 'list' || listOf(token).ordered === listOf(parts[0]).ordered;
}

/** Whether the fence of a listing is closed. @param {Tokens.Code} token */
export function isComplete({ raw, codeBlockStyle }) {
  if (codeBlockStyle === 'indented') return true;
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1] ?? '```';
  return new RegExp(`\\n {0,3}${fence[0]}{${fence.length},}[ \\t]*\\n?$`).test(raw);
}

/** @param {Token} token */
function listOf(token) {
  return /** @type {Tokens.List} */ (token);
}

/**
 * Finishes a part of the last block.
 * @param {Long|null} long what it goes on with
 * @param {readonly Token[]} tokens the last block, and spaces
 * @param {string} rest the text of the tokens
 * @param {Links} links
 * @returns {Cut|null} null: it is not worth it yet
 */
export function split(long, tokens, rest, links) {
  const token = tokens.find(({ type }) => type !== 'space');
  if (!token) return { finished: [], long, length: rest.length };
  if (!rest.startsWith(token.raw)) return null;
  if (long && !isPart(long, token)) return { finished: joined(long, []), long: null, length: 0 };
  const part = partOf(token, long, rest, links);
  if (part) {
    const { head } = part;
    return { finished: [], long: { kind: part.kind, head, parts: [...(long?.parts ?? []), part.token] }, length: part.length };
  }
  // A listing with fences that is closed has its end, and waits for what follows it.
  if (rest.length < CUT_ANYWAY || (token.type === 'code' && token.codeBlockStyle !== 'indented')) return null;
  const line = rest.lastIndexOf('\n', CUT_ANYWAY) + 1;
  const length = line || CUT_ANYWAY;
  const finished = lex(rest.slice(0, length), links);
  return { finished: long ? joined(long, finished) : finished, long: null, length };
}

/** @typedef {{kind: LongKind, token: Token, head: string, length: number}} Part */

/** @param {Token} token @param {Long|null} long @param {string} rest @param {Links} links @returns {Part|null} */
function partOf(token, long, rest, links) {
  switch (token.type) {
    case 'list': return partOfList(/** @type {Tokens.List} */ (token), rest);
    case 'table': return partOfTable(/** @type {Tokens.Table} */ (token), long?.head ?? null, rest);
    case 'code': return partOfCode(/** @type {Tokens.Code} */ (token), long?.head ?? null, rest);
    case 'paragraph': return partOfParagraph(rest, links);
    default: return null;
  }
}

/** @param {Tokens.List} token @param {string} rest @returns {Part|null} */
function partOfList(token, rest) {
  const items = token.items.slice(0, -OPEN_ITEMS);
  const raw = items.map((item) => item.raw).join('');
  if (!items.length || !rest.startsWith(raw)) return null;
  const blank = /^(?:[ \t]*\n)*/.exec(rest.slice(raw.length))?.[0].length ?? 0; // the next part begins with an item
  return { kind: 'list', token: { ...token, raw, items }, head: '', length: raw.length + blank };
}

/** @param {Tokens.Table} token @param {string|null} known @param {string} rest @returns {Part|null} */
function partOfTable(token, known, rest) {
  const head = known ?? /^.*\n.*\n/.exec(rest)?.[0] ?? '';
  const rows = token.rows.slice(0, -OPEN_ITEMS);
  const lines = new RegExp(`^(?:.*\\n){${rows.length}}`).exec(rest.slice(known === null ? head.length : 0));
  if (!rows.length || !lines) return null;
  const length = (known === null ? head.length : 0) + lines[0].length;
  return { kind: 'table', token: { ...token, raw: rest.slice(0, length), rows }, head, length };
}

/** Listings have an end that is written down; until it comes, whole lines are finished. @param {Tokens.Code} token @param {string|null} known @param {string} rest @returns {Part|null} */
function partOfCode(token, known, rest) {
  const opening = /^ {0,3}(`{3,}|~{3,}).*\n/.exec(rest);
  const fence = known ?? opening?.[1];
  if (!fence) return null;
  const begin = known === null ? /** @type {RegExpExecArray} */ (opening)[0].length : 0;
  const length = rest.lastIndexOf('\n') + 1 || CUT_ANYWAY;
  if (new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`, 'm').test(rest.slice(begin)) || length > rest.length) return null;
  const text = rest.slice(begin, length).replace(/\n$/, '');
  return { kind: 'code', token: { ...token, raw: rest.slice(0, length), text }, head: fence, length };
}

/** Between two words, before a letter: nothing that begins so begins another block. @param {string} rest @param {Links} links @returns {Part|null} */
function partOfParagraph(rest, links) {
  const cut = /^[\s\S]*[ \n](?=\p{L})/u.exec(rest.slice(0, LONG));
  const length = cut?.[0].length ?? 0;
  if (length < LONG / 2) return null;
  const [token] = lex(rest.slice(0, length), links);
  return { kind: 'paragraph', token, head: '', length };
}
