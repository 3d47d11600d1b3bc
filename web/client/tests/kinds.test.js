// @vitest-environment node
// Three kinds of file, never mixed: pure, effects, DOM. Each says its kind at its head.

import { readFileSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';

const SRC = new URL('../src/', import.meta.url);
const FILES = readdirSync(SRC, { recursive: true }).map(String).filter((name) => name.endsWith('.js'));
// They turn text into values.
const PURE_PACKAGES = /^(?:marked|lowlight|highlight\.js\/lib\/languages\/\w+)$/;
// Neither kind: types and words have no behaviour, main.js joins the kinds.
const ASIDE = ['link_types.js', 'main.js', 'text.js', 'text_extras.js', 'types.js'];

/** @param {string} name */
const read = (name) => readFileSync(new URL(name, SRC), 'utf8');

/** @param {string} name */
const code = (name) => read(name).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');

/** The first comment. @param {string} name */
const head = (name) => /^(?:\/\/.*\n)+/.exec(read(name))?.[0] ?? '';

/** @param {string} name */
const kinds = (name) => ['Pure', 'Effects', 'DOM'].filter((kind) => new RegExp(`\\b${kind}[.:;]`).test(head(name).replace(/\n\/\/ /g, ' ')));

/** Names of what a file imports: of ours relative to src, of others as written. @param {string} name */
function imports(name) {
  return [...read(name).matchAll(/^import (?:[^']*? from )?'([^']+)';/gm)].map(([, path]) =>
    path.startsWith('.') ? new URL(path, new URL(name, SRC)).href.slice(SRC.href.length) : path);
}

const rest = FILES.filter((name) => !ASIDE.includes(name));

test('every file is of one kind', () => {
  for (const name of rest) expect.soft(kinds(name), name).toHaveLength(1);
  for (const name of rest) expect.soft(kinds(name)[0] === 'DOM', name).toBe(name.startsWith('views/'));
});

test('pure files know no browser, no time and no dice, and import only pure files', () => {
  const pure = rest.filter((name) => kinds(name)[0] === 'Pure');
  expect(pure).toEqual(expect.arrayContaining(['fold.js', 'link_state.js', 'thread_state.js']));
  for (const name of pure) {
    expect.soft(code(name), name).not.toMatch(
      /\b(window|document|fetch|setTimeout|setInterval|localStorage|navigator|console\.|Date\.now|Math\.random\b|crypto\b)/);
    for (const path of imports(name)) expect.soft(pure.includes(path) || PURE_PACKAGES.test(path), `${name} imports ${path}`).toBe(true);
  }
});

test('effects touch no elements and import no views', () => {
  for (const name of rest.filter((file) => kinds(file)[0] === 'Effects')) {
    expect.soft(code(name), name).not.toMatch(/createElement|querySelector|appendChild|classList/);
    for (const path of imports(name)) expect.soft(path, name).not.toMatch(/^views\/|^preact/);
  }
});

test('A4 no text is ever parsed as markup or code, and no file says words of its own', () => {
  for (const name of FILES) {
    expect.soft(code(name), name).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|new Function|\beval\(/);
    if (name.startsWith('views/')) {
      expect.soft(code(name), name).not.toMatch(/(?:title|placeholder|'aria-label'): '|, '[A-Z][a-z]+ ?[a-z ]*'\)/);
    }
  }
});

test('E7 no address is absolute', () => {
  for (const name of FILES) expect.soft(code(name), name).not.toMatch(/['"`]\/(?:api|static|t)\b|https?:\/\//);
});
