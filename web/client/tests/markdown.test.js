import fc from 'fast-check';
import { Lexer } from 'marked';
import { expect, test } from 'vitest';

import { NO_BLOCKS, growBlocks } from '../src/markdown/blocks.js';
import { decodeReferences, safeAddress } from '../src/markdown/inline.js';

const fragments = fc.oneof(
  fc.constantFrom(
    '\n', '\n\n', '# ', '## Title', '- ', '- item', '  - nested', '1. ', '2) two', '> ', '> quote', '```', '```js\n', '~~~',
    '| a | b |\n', '|---|:-:|\n', '| 1 | 2 |\n', '***', '---', '===', '**bold**', '*it', '`code`', '    indented', '\t',
    '<div>', '</div>', '<!-- ', ' -->', '[x] ', '- [ ] task', 'word', ' ', 'a|b', '\\', '&amp;', '[l](http://a.b)', '![i](u)',
    '\r\n', '\r', '$x$', 'http://e.org ', '😀', '+', '#', '#tag', '<', '|', '\n- a\n\n', '\n```\n', ':', '--', '1'),
  fc.string({ maxLength: 4 }));

/** @param {any} blocks */
const flat = ({ groups, tail }) => [...groups.flat(), ...tail];

/** @param {any[]} tokens */
const plain = (tokens) => JSON.parse(JSON.stringify(tokens));

test('M4 a text that grows in any steps has the blocks of the whole text', () => {
  fc.assert(fc.property(fc.array(fragments, { maxLength: 60, size: 'max' }), fc.nat({ max: 5 }), (pieces, join) => {
    let blocks = NO_BLOCKS;
    let text = '';
    pieces.forEach((piece, index) => {
      text += piece;
      if (index % (join + 1) === 0) blocks = growBlocks(blocks, text);
    });
    blocks = growBlocks(blocks, `${text}\n`);
    expect(plain(flat(blocks))).toEqual(plain([...new Lexer({ gfm: true }).lex(`${text}\n`)]));
  }), { numRuns: 4_000 });
}, 60_000);

test('M4 finished blocks keep their identity and only the tail is parsed', () => {
  const paragraphs = Array.from({ length: 200 }, (_, i) => `Paragraph ${i} with *words*.\n\n`).join('');
  const before = growBlocks(NO_BLOCKS, paragraphs);
  const after = growBlocks(before, `${paragraphs}more`);
  expect(before.groups.length).toBeGreaterThan(3);
  before.groups.slice(0, -1).forEach((group, i) => expect(after.groups[i]).toBe(group));
  expect(after.tail.length).toBeLessThan(6);
});

test('M4 a text that was replaced is parsed anew', () => {
  const before = growBlocks(NO_BLOCKS, 'a\n\nb\n\nc\n\nd');
  expect(flat(growBlocks(before, 'x\n\ny'))[0]).toMatchObject({ type: 'paragraph', text: 'x' });
});

test('M4 a definition holds for what follows it', () => {
  let blocks = growBlocks(NO_BLOCKS, '[x]: http://a.b\n\none\n\ntwo\n\nthree\n\n');
  blocks = growBlocks(blocks, '[x]: http://a.b\n\none\n\ntwo\n\nthree\n\n[x]');
  expect(flat(blocks).at(-1)).toMatchObject({ tokens: [{ type: 'link', href: 'http://a.b' }] });
});

test('A4 only addresses of the web and of mail become links', () => {
  expect(safeAddress('https://example.org/a?b=c')).toBe('https://example.org/a?b=c');
  expect(safeAddress('mailto:a@b.c')).toBe('mailto:a@b.c');
  for (const bad of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:alert(1)', 'java\nscript:alert(1)', 'data:text/html,x',
    'vbscript:x', 'file:///etc/passwd', 'blob:http://a/b', '/api/threads', 'x', '//evil', '#a', 'javascript&#58;alert(1)']) {
    expect(safeAddress(bad)).toBe(null);
  }
});

test('M4 character references are read', () => {
  expect(decodeReferences('a &amp; b &lt;c&gt; &#65;&#x1F600; &nope; &constructor; & &#0; &#xD800;'))
    .toBe('a & b <c> A😀 &nope; &constructor; & \ufffd \ufffd');
});
