// Listings in colour. DOM. Loaded with the first listing that is complete.

import { highlight, prepare } from '../markdown/highlight.js';
import { later } from './later.js';

/** @returns {Promise<typeof highlight>} when all languages are prepared */
export function highlighter() {
  return new Promise((resolve) => {
    const next = () => {
      if (prepare()) later(next);
      else resolve(highlight);
    };
    later(next);
  });
}
