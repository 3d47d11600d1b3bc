// Copies a text and says that it did. DOM.

import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { IconButton } from './icons.js';

/** So long the button says how it went. */
const SHOWN_MS = 2_000;

/** @param {{text: string, label?: string, testid?: string}} props */
export function CopyButton({ text, label = TEXT.copy, testid = 'copy' }) {
  const [result, setResult] = useState(/** @type {'copied'|'failed'|null} */ (null));
  useEffect(() => {
    if (!result) return undefined;
    const timer = setTimeout(() => setResult(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = () => copyText(text).then(() => setResult('copied'), () => setResult('failed'));
  const shown = { copied: TEXT.copied, failed: TEXT.copyFailed };
  return h(IconButton, {
    icon: result === 'copied' ? 'check' : result === 'failed' ? 'warn' : 'copy',
    label: result ? shown[result] : label, testid, 'data-result': result ?? undefined, onClick: copy,
  });
}

/**
 * Browsers offer the clipboard to secure pages only, and ours may be on a plain address of the local
 * network: then the old way, by a selection.
 * @param {string} text
 */
export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const box = document.createElement('textarea');
  box.value = text;
  box.className = 'hidden';
  document.body.append(box);
  box.select();
  const copied = document.execCommand('copy');
  box.remove();
  if (!copied) throw new Error('refused');
}
