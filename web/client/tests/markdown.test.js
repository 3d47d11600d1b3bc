import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { NO_BLOCKS, allBlocks, growBlocks } from '../src/markdown/blocks.js';
import { foresee } from '../src/markdown/foresee.js';
import { decodeReferences, directionOf, safeAddress } from '../src/markdown/inline.js';
import { lex } from '../src/markdown/lexer.js';
import { LONG } from '../src/markdown/long.js';

const fragments = fc.oneof(
  fc.constantFrom(
    '\n', '\n\n', '# ', '## Title', '- ', '- item', '  - nested', '1. ', '2) two', '> ', '> quote', '```', '```js\n', '~~~',
    '| a | b |\n', '|---|:-:|\n', '| 1 | 2 |\n', '***', '---', '===', '**bold**', '*it', '`code`', '    indented', '\t',
    '<div>', '</div>', '<!-- ', ' -->', '[x] ', '- [ ] task', 'word', ' ', 'a|b', '\\', '&amp;', '[l](http://a.b)', '![i](u)',
    '\r\n', '\r', '$x$', 'http://e.org ', '😀', '+', '#', '#tag', '<', '|', '$$', '$$\n', '\\[', '\\]', '\\(', '\\)', '$', 'x^2', '$5 and $6', '\n- a\n\n', '\n```\n', ':', '--', '1'),
  fc.string({ maxLength: 4 }));

/** What a view can draw: of a list its items, not its own text; of words no matter how wide the space between them. @param {any[]} tokens */
const plain = (tokens) => JSON.parse(JSON.stringify(tokens.filter(({ type }) => type !== 'space')), (_, value) => {
  if (value?.type === 'list') return { ...value, raw: '' };
  if (value?.type !== 'text' && value?.type !== 'paragraph') return value;
  return { ...value, raw: narrow(value.raw), text: narrow(value.text) };
});

/** @param {string} text */
const narrow = (text) => text.replace(/\s+/g, ' ').trim();

test('M4 a text that grows in any steps has the blocks of the whole text', () => {
  fc.assert(fc.property(fc.array(fragments, { maxLength: 60, size: 'max' }), fc.nat({ max: 5 }), (pieces, join) => {
    let blocks = NO_BLOCKS;
    let text = '';
    pieces.forEach((piece, index) => {
      text += piece;
      if (index % (join + 1) === 0) blocks = growBlocks(blocks, text);
    });
    blocks = growBlocks(blocks, `${text}\n`);
    expect(plain(allBlocks(blocks))).toEqual(plain(lex(`${text}\n`)));
  }), { numRuns: 4_000, examples: [[['> ', '- ', '\n', '.'], 0], [['  - nested', '\n', '--', '\t'], 0], [['$$', '|---|:-:|\n', '# ', '\n', '|---|:-:|\n', '>', '$$\n'], 0]] });
}, 60_000);

test('M4 finished blocks keep their identity and only the tail is parsed', () => {
  const paragraphs = Array.from({ length: 400 }, (_, i) => `Paragraph ${i} with *words*.\n\n`).join('');
  const before = growBlocks(NO_BLOCKS, paragraphs);
  const after = growBlocks(before, `${paragraphs}more`);
  expect(before.groups.length).toBeGreaterThan(3);
  before.groups.slice(0, -1).forEach((group, i) => expect(after.groups[i]).toBe(group));
  expect(after.tail.length).toBeLessThan(6);
});

test('M4 a text that was replaced is parsed anew', () => {
  const before = growBlocks(NO_BLOCKS, 'a\n\nb\n\nc\n\nd');
  expect(allBlocks(growBlocks(before, 'x\n\ny'))[0]).toMatchObject({ type: 'paragraph', text: 'x' });
});

test('M4 a definition holds for what follows it', () => {
  let blocks = growBlocks(NO_BLOCKS, '[x]: http://a.b\n\none\n\ntwo\n\nthree\n\n');
  blocks = growBlocks(blocks, '[x]: http://a.b\n\none\n\ntwo\n\nthree\n\n[x]');
  expect(allBlocks(blocks).at(-1)).toMatchObject({ tokens: [{ type: 'link', href: 'http://a.b' }] });
});

test('M4 what was parsed again and came out the same is the same', () => {
  const text = 'One.\n\n- a\n- b\n- c\n\n| n |\n|---|\n| 1 |\n| 2 |\n';
  const before = growBlocks(NO_BLOCKS, text);
  const after = growBlocks(before, `${text}| 3 |\n`);
  const [one, list, table] = /** @type {any[]} */ (before.tail);
  const [same, items, rows] = /** @type {any[]} */ (after.tail);
  expect(same).toBe(one);
  items.items.forEach((item, i) => expect(item).toBe(list.items[i]));
  expect(rows.rows.map((row, i) => row === table.rows[i])).toEqual([true, true, false]);
  // A looser list has other items, and a definition gives a sense to what stands before it.
  const loose = growBlocks(growBlocks(NO_BLOCKS, '- a\n- b'), '- a\n- b\n\n- c');
  expect(plain([...loose.tail])).toEqual(plain(lex('- a\n- b\n\n- c')));
  const defined = growBlocks(growBlocks(NO_BLOCKS, '[x]\n\n'), '[x]\n\n[x]: http://a.b\n');
  expect(plain([...defined.tail])).toEqual(plain(lex('[x]\n\n[x]: http://a.b\n')));
});

describe('M4 blocks that grow long', () => {
  /** Fed in steps, as a page is. @param {string} text @param {number} step */
  function grow(text, step) {
    let blocks = NO_BLOCKS;
    let most = 0;
    for (let end = step; end < text.length + step; end += step) {
      const before = blocks;
      blocks = growBlocks(blocks, text.slice(0, end));
      most = Math.max(most, Math.min(end, text.length) - blocks.head.length);
      before.groups.slice(0, -1).forEach((group, i) => expect(blocks.groups[i]).toBe(group));
    }
    return { blocks, all: /** @type {any[]} */ (allBlocks(blocks)), most };
  }
  const steps = [113, 4_001];
  const words = (/** @type {number} */ n) => `word${n} **b${n}** \`c${n}\` and more of the same`;

  test.each(steps)('a list keeps its items and its numbers (%i)', (step) => {
    const items = Array.from({ length: 800 }, (_, i) => `1. ${words(i)}\n`);
    const { all, most } = grow(`Before.\n\n${items.join('')}\nAfter.\n\nMore.\n\nEnd.\n`, step);
    expect(all.map(({ type }) => type)).toEqual(['paragraph', 'long', 'paragraph', 'paragraph', 'paragraph']);
    const { parts } = all[1];
    expect(parts.flatMap(({ items: some }) => some.map(({ text }) => text))).toEqual(items.map((item) => item.slice(3, -1)));
    let next = 1;
    for (const part of parts) {
      expect(part.start).toBe(next);
      next += part.items.length;
    }
    expect(most).toBeLessThan(LONG + 2 * step + 500);
  });

  test.each(steps)('a loose list with nested blocks loses nothing (%i)', (step) => {
    const items = Array.from({ length: 200 }, (_, i) => `- ${words(i)}\n\n  second ${i}\n\n  \`\`\`js\n  let x = ${i};\n  \`\`\`\n\n`);
    const { all } = grow(`${items.join('')}The end.\n`, step);
    expect(all.map(({ type }) => type)).toEqual(['long', 'paragraph']);
    const parts = all[0].parts;
    expect(parts.flatMap(({ items: some }) => some)).toHaveLength(200);
    expect(parts.every(({ loose }) => loose)).toBe(true);
    expect(parts.flatMap(({ items: some }) => some.map(({ tokens }) => tokens.find(({ type }) => type === 'code').text)))
      .toEqual(items.map((_, i) => `let x = ${i};`));
  });

  test.each(steps)('a table keeps its rows (%i)', (step) => {
    const rows = Array.from({ length: 800 }, (_, i) => `| ${i} | ${words(i)} |\n`);
    const { all, most } = grow(`| n | text |\n|--:|---|\n${rows.join('')}\nAfter.\n`, step);
    expect(all.map(({ type }) => type)).toEqual(['long', 'paragraph']);
    const { parts } = all[0];
    expect(parts.flatMap((part) => part.rows.map(([cell]) => cell.text))).toEqual(rows.map((_, i) => String(i)));
    for (const part of parts) expect([part.header.length, part.align]).toEqual([2, ['right', null]]);
    expect(most).toBeLessThan(LONG + 2 * step + 500);
  });

  test.each(steps)('a listing keeps its lines, and ends at its fence (%i)', (step) => {
    const lines = Array.from({ length: 2_000 }, (_, i) => (i % 50 ? `let x${i} = "\`\`\`";` : '```js is no end'));
    const { all, most } = grow(`~~~~js\n${lines.join('\n')}\n~~~\n~~~~\nAfter.\n\n- x\n`, step);
    expect(all.map(({ type }) => type)).toEqual(['long', 'paragraph', 'list']);
    const { parts } = all[0];
    expect(parts.map(({ text }) => text).filter(Boolean).join('\n')).toBe([...lines, '~~~'].join('\n'));
    expect(parts[0].lang).toBe('js');
    expect(most).toBeLessThan(LONG + 2 * step + 500);
  });

  test.each(steps)('a paragraph keeps its words (%i)', (step) => {
    const text = Array.from({ length: 800 }, (_, i) => words(i)).join(' - ');
    const { all, most } = grow(`${text}\n\nAfter.`, step);
    expect(all.map(({ type }) => type)).toEqual(['long', 'paragraph']);
    expect(all[0].parts.map(({ text: some }) => some).join('')).toBe(text.replace(/(?<=\S) (?=$)/, ''));
    expect(all[0].parts.every(({ type }) => type === 'paragraph')).toBe(true);
    expect(most).toBeLessThan(LONG + 2 * step + 500);
  });

  test.each(['> quoted\n', 'x', '<p>\n', '- a\n  - b\n', '    code\n', '*', '|', '\n', '1. '])('of %j nothing makes a step dear, and all that is left is text', (piece) => {
    const text = piece.repeat(Math.ceil(200_000 / piece.length));
    const { blocks, most } = grow(text, 4_001);
    expect(text.startsWith(blocks.head)).toBe(true);
    expect(most).toBeLessThan(4 * LONG);
  });

  test('any blocks after each other, long and short, are all there', () => {
    /** @type {fc.Arbitrary<[string, number]>} */
    const block = fc.tuple(fc.constantFrom('list', 'table', 'code', 'text'), fc.integer({ min: 1, max: 400 }));
    /** @param {[string, number]} block @param {number} at */
    const write = ([kind, count], at) => Array.from({ length: count }, (_, i) => ({
      list: `- ${words(i)}\n`, table: `${i ? '' : '| n |\n|---|\n'}| ${words(i)} |\n`, code: `${i ? '' : '```\n'}${words(i)}\n${i === count - 1 ? '```\n' : ''}`, text: `${words(i)}\n`,
    })[kind]).join('') + (at % 2 ? '\n***\n\n' : '\n# Title\n\n');
    fc.assert(fc.property(fc.array(block, { maxLength: 6 }), fc.integer({ min: 50, max: 9_000 }), (list, step) => {
      const { all } = grow(list.map(write).join(''), step);
      const kinds = all.filter(({ type }) => !['hr', 'heading'].includes(type)).map((token) => token.kind ?? token.type);
      expect(kinds).toEqual(list.map(([kind]) => (kind === 'text' ? 'paragraph' : kind)));
      const counts = all.filter(({ type }) => !['hr', 'heading'].includes(type)).map((token) => (token.parts ?? [token]).flatMap(({ items, rows, text }) => items ?? rows ?? text.split('\n')).filter((entry) => entry !== '').length);
      expect(counts).toEqual(list.map(([, count]) => count));
    }), { numRuns: 25 });
  }, 60_000);
});

describe('M4 the end of a text is shown as what it is going to be', () => {
  test.each([
    ['some **bo', 'some **bo**'], ['some **bold*', 'some **bold**'], ['some **', 'some '], ['**a** and **b', '**a** and **b**'], ['~~x', '~~x~~'],
    ['use `cod', 'use `cod`'], ['use ``a`b', 'use ``a`b'], ['use `', 'use '], ['`a` and `b**', '`a` and `b**`'],
    ['a [link](https://exa', 'a link'], ['![alt](http://x', 'alt'], ['a [link](http://x.y) b', 'a [link](http://x.y) b'],
    ['| a', '| a\n|---|'], ['Text:\n| a | **b', 'Text:\n| a | **b**\n|---|---|'], ['| a | b |\n|', '| a | b |\n|---|---|'], ['| a | b |\n|---|-', '| a | b |\n|---|---|'], ['Text\n\n| a |\n', 'Text\n\n| a |\n|---|'],
    ['- [', '- '], ['- [x', '- '], ['- one\n- [ ]', '- one\n- '],
    ['- **a', '- **a**'], ['**a\n\nb', '**a\n\nb'], ['a *b', 'a *b*'], ['***b', '***b***'], ['* a *b', '* a *b*'], ['x<br', 'x'],
    ['Text\n-', 'Text\n'], ['- a\n  - ', '- a\n'], ['## ', ''], ['1', ''], ['```js', ''], ['```js\nx\n``', '```js\nx\n'], ['```\nx\n```\n**a', '```\nx\n```\n**a**'],
  ])('%j', (text, expected) => expect(foresee(text)).toBe(expected));

  test.each(['', 'x**2 and', '2 ** 3', '2 * 3', '\\*\\*a', '\\`a', 'a[0', 'a [link', '```js\nlet `x', '```js\n- ', '    indented `x', '|x| < 1', 'a\n', '***\n', '| a | b |\n|---|---|\n| x', '`**`', 'a * b'])(
    'not %j', (text) => expect(foresee(text)).toBe(text));
});

describe('M4 formulas', () => {
  /** @param {string} text @returns {string[]} */
  function formulas(text) {
    /** @param {any} token @returns {string[]} */
    const within = (token) => (token.type === 'math' ? [`${token.display ? '$$' : '$'}${token.text}`]
      : [...(token.tokens ?? []), ...(token.items ?? []), ...(token.rows ? token.header : []), ...(token.rows?.flat() ?? [])].flatMap(within));
    return lex(text).flatMap(within);
  }

  test.each([
    ['\\(a^2\\) and \\( b \\)', ['$a^2', '$b']],
    ['$x$, $e^{i\\pi} + 1 = 0$ and $\\alpha$.', ['$x', '$e^{i\\pi} + 1 = 0', '$\\alpha']],
    ['$$\na = b\n$$\n\nand $$c$$ here', ['$$a = b', '$$c']],
    ['Text\n\\[\n\\frac{1}{2}\n\\]\nmore', ['$$\\frac{1}{2}']],
    ['- item $n$\n- $$\n  x\n  $$', ['$n', '$$x']],
    ['| $a$ | \\(b\\) |\n|---|---|\n| $c$ | d |', ['$a', '$b', '$c']],
    ['**$x_1$ and $x_2$**', ['$x_1', '$x_2']],
  ])('%j', (text, expected) => expect(formulas(text)).toEqual(expected));

  test.each([
    'It costs $5 and $6.', 'US$5 or US$6', '$5, or 10$ in words', 'from $5-$6', 'a $ b $ c', '`$x$` and `\\(y\\)`', '```\n$$\nx\n$$\n```', '\\$x\\$',
    '$HOME and $PATH', 'A $20 bill and a $50 bill', '$$\n\nnothing\n\n$$', '\\(a\n\nb\\)', 'costs 5$ and 6$',
  ])('not in %j', (text) => expect(formulas(text)).toEqual([]));

  test('one that is being written is known as such', () => {
    expect(lex('$$\n\\frac{1}')).toMatchObject([{ type: 'math', open: true, text: '\\frac{1}' }]);
    expect(lex('\\[ x')).toMatchObject([{ type: 'math', open: true, text: 'x' }]);
  });
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

test('the first letter gives the direction', () => {
  expect(['1. abc', '**שלום** abc', '(مرحبا)', '123', '', 'a ב', '日本語', '🙂 עברית'].map(directionOf))
    .toEqual(['ltr', 'rtl', 'rtl', undefined, undefined, 'ltr', 'ltr', 'rtl']);
});
