// Characters and addresses in Markdown text. Pure.

// What models really write; numbers cover the rest.
/** @type {Readonly<Record<string, string>>} */
const ENTITIES = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', ensp: '\u2002', emsp: '\u2003', thinsp: '\u2009',
  copy: '©', reg: '®', trade: '™', hellip: '…', mdash: '—', ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“',
  rdquo: '”', laquo: '«', raquo: '»', bull: '•', middot: '·', deg: '°', plusmn: '±', times: '×', divide: '÷',
  frac12: '½', sup2: '²', sup3: '³', micro: 'µ', para: '¶', sect: '§', euro: '€', pound: '£', yen: '¥', cent: '¢',
  larr: '←', rarr: '→', uarr: '↑', darr: '↓', harr: '↔', rArr: '⇒', lArr: '⇐', hArr: '⇔', le: '≤', ge: '≥', ne: '≠',
  asymp: '≈', equiv: '≡', infin: '∞', sum: '∑', prod: '∏', radic: '√', int: '∫', part: '∂', nabla: '∇', isin: '∈',
  forall: '∀', exist: '∃', empty: '∅', and: '∧', or: '∨', cap: '∩', cup: '∪', sub: '⊂', sup: '⊃', not: '¬',
  alpha: 'α', beta: 'β', gamma: 'γ', delta: 'δ', epsilon: 'ε', theta: 'θ', lambda: 'λ', mu: 'μ', pi: 'π', rho: 'ρ',
  sigma: 'σ', tau: 'τ', phi: 'φ', omega: 'ω', Delta: 'Δ', Sigma: 'Σ', Omega: 'Ω', check: '✓', hearts: '♥',
};

const REFERENCE = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));/g;

/** Character references in text become what they stand for (CommonMark section 2.5). @param {string} text */
export function decodeReferences(text) {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCE, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    const invalid = code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
    return invalid ? '\ufffd' : String.fromCodePoint(code);
  });
}

const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/**
 * The direction of a block of blocks, by its first letter; `dir="auto"` does not look into what has a
 * direction of its own.
 * @param {string} text
 * @returns {'ltr'|'rtl'|undefined} undefined: nothing in it has one, so it is that of what is around
 */
export function directionOf(text) {
  const letter = /\p{L}/u.exec(text);
  if (!letter) return undefined;
  return RIGHT_TO_LEFT.test(letter[0]) ? 'rtl' : 'ltr';
}

const SAFE_SCHEMES = new Set(['http:', 'https:', 'mailto:']);

/**
 * An address that a link may lead to. What a model writes is not trusted: no scripts, no data, and
 * nothing relative, which would be a page of ours.
 * @param {string} href
 * @returns {string|null}
 */
export function safeAddress(href) {
  const url = parse(decodeReferences(href));
  return url && SAFE_SCHEMES.has(url.protocol) ? url.href : null;
}

/** @param {string} href @returns {string} where it leads; empty for what is no address of the web */
export function hostOf(href) {
  return parse(decodeReferences(href))?.host ?? '';
}

/** @param {string} href */
function parse(href) {
  try {
    return new URL(href);
  } catch {
    return null;
  }
}
