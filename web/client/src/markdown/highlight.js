// Source code, cut into pieces that have a meaning. Pure. Loaded when the first listing is shown.

import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import r from 'highlight.js/lib/languages/r';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

const grammars = Object.entries({
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, makefile, markdown, php, python, r, ruby,
  rust, sql, swift, typescript, xml, yaml,
});
const lowlight = createLowlight();
lowlight.registerAlias({ bash: ['shell', 'console', 'shellsession'], python: ['py3', 'python3'], json: ['jsonl', 'json5'], javascript: ['node'], xml: ['vue', 'svelte'] });

/**
 * Prepares one more language; all of them at a stretch would take longer than a frame.
 * @returns {boolean} whether there are more; `highlight` needs all, since languages hold others
 */
export function prepare() {
  const next = grammars.shift();
  if (next) lowlight.register(...next);
  return grammars.length > 0;
}

/**
 * A piece of code and what it is; what has no kind has none.
 * @typedef {{text: string, kind: string|null}} Piece
 */

/**
 * @param {string} code
 * @param {string} language as after a fence
 * @returns {Piece[]|null} null: the language is not known
 */
export function highlight(code, language) {
  const name = language.toLowerCase();
  if (!lowlight.registered(name)) return null;
  /** @type {Piece[]} */
  const pieces = [];
  collect(lowlight.highlight(name, code, { prefix: '' }), null, pieces);
  return pieces;
}

/** @param {import('hast').Root|import('hast').RootContent} node @param {string|null} kind @param {Piece[]} pieces */
function collect(node, kind, pieces) {
  if (node.type === 'text') {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += node.value;
    else pieces.push({ text: node.value, kind });
  } else if ('children' in node) {
    // Of kinds within each other the inner one holds: a name in a call, an escape in a string.
    const [own] = node.type === 'element' ? /** @type {string[]} */ (node.properties.className ?? []) : [];
    const within = own === 'subst' ? null : own ?? kind; // what is put into a string is code again
    for (const child of node.children) collect(child, within, pieces);
  }
}
