// Markdown tokens as elements: no HTML text is ever parsed, so nothing a model writes can become markup.
// DOM.

import { Fragment, h } from 'preact';
import { memo } from './memo.js';
import { useRef } from 'preact/hooks';

import { NO_BLOCKS, growBlocks } from '../markdown/blocks.js';
import { decodeReferences, safeAddress } from '../markdown/inline.js';
import { Icon } from './icons.js';

/** @import {Token, Tokens} from 'marked' */
/** @import {ComponentChild, VNode} from 'preact' */

/** A text in Markdown that may grow. @param {{text: string}} props */
export function Markdown({ text }) {
  const blocks = useRef(NO_BLOCKS);
  blocks.current = growBlocks(blocks.current, text);
  const { groups, tail } = blocks.current;
  return h('div', { class: 'markdown', dir: 'auto' },
    groups.map((tokens, index) => h(Group, { key: index, tokens })),
    h(Group, { key: 'tail', tokens: tail }));
}

const Group = memo(
  /** @param {{tokens: readonly Token[]}} props */
  ({ tokens }) => h(Fragment, null, tokens.map(block)));

/** @param {readonly Token[]|undefined} tokens */
const blocks = (tokens) => (tokens ?? []).map(block);

/** @param {readonly Token[]|undefined} tokens */
const inlines = (tokens) => (tokens ?? []).map(inline);

/** @param {Token} token @returns {ComponentChild} */
function block(token) {
  switch (token.type) {
    case 'space':
    case 'def': return null;
    case 'heading': return h(`h${Math.min(6, token.depth)}`, { dir: 'auto' }, inlines(token.tokens));
    case 'paragraph': return h('p', { dir: 'auto' }, inlines(token.tokens));
    case 'text': return token.tokens ? h(Fragment, null, inlines(token.tokens)) : decodeReferences(token.text);
    case 'checkbox': return h('input', { type: 'checkbox', checked: token.checked, disabled: true });
    case 'code': return code(/** @type {Tokens.Code} */ (token));
    case 'blockquote': return h('blockquote', { dir: 'auto' }, blocks(token.tokens));
    case 'list': return list(/** @type {Tokens.List} */ (token));
    case 'hr': return h('hr', null);
    case 'table': return table(/** @type {Tokens.Table} */ (token));
    case 'html': return h('pre', { class: 'raw' }, token.raw);
    default: return inline(token);
  }
}

/** @param {Tokens.Code} token */
function code({ text, lang }) {
  const language = lang?.split(/\s/, 1)[0];
  return h('figure', { class: 'code' },
    language ? h('figcaption', null, language) : null,
    h('pre', { tabIndex: 0 }, h('code', null, text)));
}

/** @param {Tokens.List} token */
function list({ ordered, start, loose, items }) {
  return h(ordered ? 'ol' : 'ul', { start: ordered && start !== 1 ? start : undefined, class: loose ? 'loose' : undefined },
    items.map((item) => h('li', { class: item.task ? 'task' : undefined, dir: 'auto' }, blocks(item.tokens))));
}

/** @param {Tokens.Table} token */
function table({ header, rows }) {
  /** @param {'th'|'td'} tag */
  const row = (tag) => (/** @type {Tokens.TableCell[]} */ cells) =>
    h('tr', null, cells.map((cell) => h(tag, { class: cell.align ? `align-${cell.align}` : undefined, dir: 'auto' }, inlines(cell.tokens))));
  return h('div', { class: 'table', tabIndex: 0 },
    h('table', null, h('thead', null, row('th')(header)), h('tbody', null, rows.map(row('td')))));
}

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
    // Nothing is loaded from elsewhere without a click: the picture is a link to it.
    case 'image': return link(token.href, token.title, [h(Icon, { name: 'image' }), ' ', token.text || token.href]);
    case 'html': return /^<br\s*\/?>$/i.test(token.raw) ? h('br', null) : token.raw;
    default: return token.raw;
  }
}

/** @param {string} href @param {string|null|undefined} title @param {ComponentChild[]} children @returns {VNode<any>} */
function link(href, title, children) {
  const address = safeAddress(href);
  if (!address) return h('span', { class: 'dead-link', title: href }, children);
  return h('a', { href: address, title: title ?? undefined, target: '_blank', rel: 'noopener noreferrer' }, children);
}
