// Files of a message that was sent. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { Icon } from './icons.js';

/** @import {FilePart, Part} from '../types.js' */

/** @param {readonly Part[]} parts @returns {FilePart[]} */
export function filesOf(parts) {
  return /** @type {FilePart[]} */ (parts.filter(({ type }) => type === 'file'));
}

/** @param {{files: readonly FilePart[], addressOf: (attachment: string) => string}} props */
export function Files({ files, addressOf }) {
  if (!files.length) return null;
  return h('ul', { class: 'files', 'aria-label': TEXT.attachments }, files.map((file) =>
    h('li', { key: file.attachment, 'data-testid': 'file', 'data-id': file.attachment }, h(FileLink, { file, address: addressOf(file.attachment) }))));
}

/** @param {{file: FilePart, address: string}} props */
function FileLink({ file: { name, mediaType, size }, address }) {
  const apart = { href: address, target: '_blank', rel: 'noopener noreferrer' };
  if (mediaType.startsWith('image/')) {
    return h('a', { class: 'thumb', ...apart, title: name }, h('img', { src: address, alt: TEXT.attachment(name), loading: 'lazy', decoding: 'async' }));
  }
  return h('a', { class: 'chip', ...apart, download: name },
    h(Icon, { name: 'file' }), h('span', { class: 'name', dir: 'auto' }, name), h('span', { class: 'size' }, TEXT.size(size)));
}
