// What is seen of a text while it is written: nothing that it is not going to be.

import { describe, expect, test } from 'vitest';

import { NO_BLOCKS, growBlocks, shownTail } from '../src/markdown/blocks.js';
import { lex } from '../src/markdown/lexer.js';

/** The words of inline tokens. @param {any[]} tokens @returns {string} */
const words = (tokens = []) => tokens.map((token) => (token.type === 'br' || /^<br/.test(token.raw) ? '\n' : token.type === 'math' ? token.text
  : token.tokens ? words(token.tokens) : token.text ?? token.raw)).join('');

/** Every piece of text, with the kind of block it is in and where that is. @param {any[]} tokens @param {string} [path] @returns {[string, string][]} */
function leaves(tokens, path = '') {
  return tokens.flatMap((token) => {
    switch (token.type) {
      case 'space':
      case 'checkbox': return [];
      case 'long': return token.kind === 'table' ? leaves([{ ...token.parts[0], rows: token.parts.flatMap(({ rows }) => rows) }], path)
        : leaves(token.kind === 'list' ? [{ ...token.parts[0], items: token.parts.flatMap(({ items }) => items) }] : token.parts, path);
      case 'list': return token.items.flatMap((item, i) => leaves(item.tokens, `${path}${token.ordered ? 'ol' : 'ul'} ${i} ${item.task ? 'task' : ''}/`));
      case 'blockquote': return leaves(token.tokens, `${path}quote/`);
      case 'table': return [token.header, ...token.rows].flatMap((row, i) => row.map((cell, j) => [`${path}table ${i} ${j}`, words(cell.tokens)]));
      case 'heading': return [[`${path}h${token.depth}`, words(token.tokens)]];
      case 'code': return [[`${path}code ${token.lang ?? ''}`, token.text]];
      case 'hr': return [[`${path}hr`, '-']];
      default: return [[`${path}p`, token.tokens ? words(token.tokens) : token.text]];
    }
  }).map(([kind, text]) => /** @type {[string, string]} */ ([kind, text.trim()])).filter(([, text]) => text);
}

/** What is seen at some beginning of a text and is not there at its end, for each beginning. @param {string} text @param {number} [from] */
function lies(text, from = 1) {
  const final = leaves(lex(text));
  let blocks = NO_BLOCKS;
  const found = [];
  for (let end = from; end <= text.length; end++) {
    const beginning = text.slice(0, end);
    blocks = growBlocks(blocks, beginning);
    const shown = leaves([...blocks.groups.flat(), ...shownTail(blocks, beginning, false)]);
    shown.forEach(([kind, seen], i) => {
      const [becomes, whole] = final[i] ?? ['nothing', ''];
      // Of the last one there may be more to come.
      if (kind !== becomes || (i === shown.length - 1 ? !whole.startsWith(seen) : whole !== seen)) found.push([beginning.slice(-20), kind, seen, becomes, whole]);
    });
  }
  return found;
}

describe('M4 nothing is seen of a text that grows letter by letter but what it is going to be', () => {
  test.each([
    ['a table and what comes after it', 'Before.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | **4** |\n\n- one\n- two\n'],
    ['tables without a line between', 'Intro:\n| **a** | b |\n|:--|--:|\n| 1 | - |\n| -2 | 2 |\n- list\n- more\n\n| x |\n|---|\n| y |\n\n| z |\n|---|\n| `w` |\n\n## End\n'],
    ['a table in an item', '- Item\n\n  | a | b |\n  |---|---|\n  | 1 | 2 |\n\n- next\n'],
    ['a table and a heading', '| a |\n|---|\n| 1 |\n# Title\n\n| a |\n|---|\n| 1 |\n---\n'],
    ['nested lists', 'Here it is:\n- one **bold**\n  - in one\n  - in two\n    1. deep\n    2. deeper `code`\n- [ ] open\n- [x] done\n\n1. first\n2. second\n\n   paragraph\n3. third\n'],
    ['listings', '# Title\n\nText\n\n```python\nx = 1\n\ny = `2`\n```\n\nThen **bold** and *it* and ***both***.\n\n~~~\n~ a\n~~~\nAfter `x`.\n\n- item\n  ```js\n  let x;\n  ```\n- next\n'],
    ['headings, quotes and rules', '## One\n\nText <br> and\n### Two\n- a\n- b\n\n---\n\n#### Four\n> quote\n> - in\n\n***\n\n**Note:** 2 * 3 * 4 and a*b.\n1984 was.\n\n* star *it*\n* star **b**\n+ plus\n'],
  ])('%s', (_, text) => expect(lies(text)).toEqual([]));

  test('a text that has ended, and is not read to its end yet', () => {
    const text = 'It is **bold**, with [a link](https://example.org/long).\n';
    const seen = (/** @type {number} */ length) => leaves([...shownTail(growBlocks(NO_BLOCKS, text.slice(0, length)), text, true)]);
    expect(seen(text.indexOf('ld**'))).toEqual([['p', 'It is bo']]);
    expect(seen(text.indexOf('/long'))).toEqual([['p', 'It is bold, with a link']]);
    expect(seen(text.length)).toEqual([['p', 'It is bold, with a link.']]);
  });

  test('a table so long that it is finished in parts', () => {
    const rows = Array.from({ length: 200 }, (_, i) => `| ${i} | some **words** in a row |\n`).join('');
    const text = `| n | words |\n|--:|---|\n${rows}- a list\n`;
    expect(lies(text, text.length - 200)).toEqual([]);
  });

  test('a list so long that it is finished in parts', () => {
    const items = Array.from({ length: 200 }, (_, i) => `- item **${i}**\n  - with one in it\n`).join('');
    expect(lies(items, items.length - 200)).toEqual([]);
  });

  test('a listing so long that it is finished in parts has no mark of its end', () => {
    const text = `\`\`\`js\n${'let x = 1;\n'.repeat(600)}\`\`\`\n`;
    const blocks = growBlocks(NO_BLOCKS, text.slice(0, -2));
    const [listing] = /** @type {any[]} */ (shownTail(blocks, text.slice(0, -2), false));
    expect(listing.parts.map((part) => part.text).join('\n')).not.toContain('`');
  });
});
