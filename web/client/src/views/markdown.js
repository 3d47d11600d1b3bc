// Markdown tokens as elements: no HTML text is ever parsed, so nothing a model writes can become markup.
// DOM.

import { Fragment, h } from 'preact';

import { GROUP, shownTail } from '../markdown/blocks.js';
import { decodeReferences, directionOf, hostOf, safeAddress } from '../markdown/inline.js';
import { isComplete } from '../markdown/long.js';
import { TEXT } from '../text.js';
import { Code } from './code.js';
import { Formula } from './formula.js';
import { Icon } from './icons.js';
import { memo } from './memo.js';
import { useBlocks } from './reading.js';
import { Table } from './table.js';

/** @import {Token, Tokens} from 'marked' */
/** @import {ComponentChild, VNode} from 'preact' */
/** @import {Blocks} from '../markdown/blocks.js' */
/** @import {MathToken} from '../markdown/math.js' */
/** @import {LongToken} from '../markdown/long.js' */

/** So many groups at the end are always laid out. The browser lays out twice what it finds in view when it may begin to
 * skip it; what is one group further up is out of view. */
const UNSETTLED = 2;

/** A text in Markdown that may grow. @param {{text: string, done: boolean}} props done: it grows no more */
export function Markdown({ text, done }) {
  const read = useBlocks(text);
  const behind = read.length < text.length;
  const finished = read.groups.reduce((sum, group) => sum + group.length, 0);
  const groups = grouped(read.groups, shownTail(read, text, done));
  // Each block finds its own direction: with one for all, every block that is added has the whole looked through again.
  return h('div', { class: 'markdown', 'aria-busy': behind || undefined },
    groups.map((tokens, index) => h(Group, {
      key: index, tokens, settled: index < groups.length - UNSETTLED,
      // Blocks before this one are complete, whatever comes.
      open: done && !behind ? GROUP : Math.min(GROUP, Math.max(0, finished - index * GROUP)),
    })));
}

/** A block stays in its group, and keeps its elements, when it is finished. @param {Blocks['groups']} groups @param {readonly Token[]} tail */
function grouped(groups, tail) {
  const full = groups.filter((group) => group.length === GROUP);
  const open = [...(groups.length > full.length ? groups[groups.length - 1] : []), ...tail];
  const rest = Array.from({ length: Math.ceil(open.length / GROUP) }, (_, i) => open.slice(i * GROUP, (i + 1) * GROUP));
  return [...full, ...rest];
}

const Group = memo(
  /** @param {{tokens: readonly Token[], settled: boolean, open: number}} props open: index of the first block that may not be complete */
  ({ tokens, settled, open }) => h('div', { class: settled ? 'blocks settled' : 'blocks' },
    tokens.map((token, index) => h(Block, { key: index, token, done: index < open }))));

const Block = memo(
  /** @param {{token: Token, done: boolean}} props */
  ({ token, done }) => block(token, done));

/** @param {readonly Token[]|undefined} tokens */
const blocks = (tokens) => (tokens ?? []).map((token) => block(token, true));

/** @param {readonly Token[]|undefined} tokens */
const inlines = (tokens) => (tokens ?? []).map(inline);

/** @param {Token} token @param {boolean} done it is complete, whatever it looks like @returns {ComponentChild} */
function block(token, done) {
  switch (token.type) {
    case 'space':
    case 'def': return null;
    // Below the headings of the page itself.
    case 'heading': return h(`h${Math.min(6, token.depth + 2)}`, { class: `h${token.depth}`, dir: 'auto' }, inlines(token.tokens));
    case 'paragraph': return h('p', { dir: 'auto' }, inlines(token.tokens));
    case 'text': return token.tokens ? h(Fragment, null, inlines(token.tokens)) : decodeReferences(token.text);
    case 'checkbox': return h('input', { type: 'checkbox', checked: token.checked, disabled: true, 'aria-label': token.checked ? TEXT.taskDone : TEXT.taskOpen });
    case 'code': return code([/** @type {Tokens.Code} */ (token)], done);
    case 'blockquote': return h('blockquote', { dir: directionOf(token.text) }, blocks(token.tokens));
    case 'list': return list(/** @type {Tokens.List} */ (token));
    case 'hr': return h('hr', null);
    case 'table': return h(Table, { parts: [/** @type {Tokens.Table} */ (token)], inlines });
    case 'long': return long(/** @type {LongToken} */ (/** @type {unknown} */ (token)), done);
    case 'html': return h('pre', { class: 'raw' }, token.raw);
    default: return inline(token);
  }
}

/** @param {LongToken} token @param {boolean} done */
function long({ kind, parts }, done) {
  switch (kind) {
    case 'code': return code(/** @type {Tokens.Code[]} */ (parts), done);
    case 'table': return h(Table, { parts: /** @type {Tokens.Table[]} */ (parts), inlines });
    default: return h('div', { class: `long ${kind}` }, parts.map((token, index) => h(Block, { key: index, token, done: true })));
  }
}

/** @param {readonly Tokens.Code[]} parts @param {boolean} done */
function code(parts, done) {
  const language = parts[0].lang?.split(/[\s,{]/, 1)[0] || undefined;
  return h(Code, { parts: parts.map(({ text }) => text), language, complete: done || parts.length > 1 || isComplete(parts[0]) });
}

/** @param {Tokens.List} token */
function list({ ordered, start, loose, items }) {
  return h(ordered ? 'ol' : 'ul', { dir: directionOf(items[0]?.text ?? ''), start: ordered && start !== 1 ? start : undefined, class: loose ? 'loose' : undefined },
    items.map((item, index) => h(Item, { key: index, item })));
}

const Item = memo(
  /** @param {{item: Tokens.ListItem}} props */
  ({ item }) => h('li', { class: item.task ? 'task' : undefined, dir: 'auto' }, blocks(item.tokens)));

/** @param {Token} token @returns {ComponentChild} */
function inline(token) {
  switch (token.type) {
    case 'text': return token.tokens ? h(Fragment, null, inlines(token.tokens)) : decodeReferences(token.text);
    case 'escape': return token.text;
    case 'strong': return h('strong', null, inlines(token.tokens));
    case 'em': return h('em', null, inlines(token.tokens));
    case 'del': return h('del', null, inlines(token.tokens));
    case 'codespan': return h('code', null, token.text);
    case 'br': return h('br', null);
    case 'link': return link(token.href, token.title, inlines(token.tokens));
    case 'image': return image(/** @type {Tokens.Image} */ (token));
    case 'math': return formula(/** @type {MathToken} */ (/** @type {unknown} */ (token)));
    case 'html': return /^<br\s*\/?>$/i.test(token.raw) ? h('br', null) : token.raw;
    default: return token.raw;
  }
}

/** @param {MathToken} token */
function formula({ text, display, open, raw }) {
  return h(Formula, { text, display, open, source: raw });
}

/** @param {string} href @param {string|null|undefined} title @param {ComponentChild[]} children @param {string} [kind] @returns {VNode<any>} */
function link(href, title, children, kind) {
  const address = safeAddress(href);
  if (!address) return h('span', { class: 'dead-link', title: href }, children);
  return h('a', { href: address, class: kind, title: title ?? undefined, target: '_blank', rel: 'noopener noreferrer' }, children);
}

/** Nothing is loaded from elsewhere without a click, and never into this page: the picture is a link to it. @param {Tokens.Image} token */
function image({ href, text }) {
  const host = hostOf(href);
  return link(href, host ? TEXT.imageAt(host) : null, [h(Icon, { name: 'image' }), ' ', text || TEXT.image, host ? h('span', { class: 'host' }, host) : null], 'image');
}
