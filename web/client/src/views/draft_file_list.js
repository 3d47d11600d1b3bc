// The files of the message that is being written. DOM.

import { h } from 'preact';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';
import { limitOf } from './attaching.js';
import { Icon, IconButton } from './icons.js';

/** @import {App} from '../app.js' */
/** @import {DraftFile} from '../draft_files.js' */
/** @import {Thread} from '../thread.js' */

/** @param {{app: App, thread: Thread}} props */
export function DraftFileList({ app, thread }) {
  const files = thread.files.files.value;
  if (!files.length) return null;
  return h('ul', { class: 'files draft', 'aria-label': TEXT.attachments }, files.map((file) =>
    h('li', { key: file.part.attachment, class: file.state, 'data-testid': 'draft-file', 'data-state': file.state },
      h(DraftFileCard, { file, limit: limitOf(app) ?? 0, address: thread.fileAddress(file.part.attachment) }),
      h(IconButton, { icon: 'close', label: MORE.removeFile(file.part.name), testid: 'remove-file', onClick: () => thread.files.remove(file.part.attachment) }))));
}

/** @param {{file: DraftFile, limit: number, address: string}} props */
function DraftFileCard({ file: { part, state, share, error }, limit, address }) {
  const percent = Math.round(100 * share);
  const tooLarge = error?.code === 'BODY_TOO_LARGE' && limit > 0;
  const trouble = error && (tooLarge ? MORE.fileTooLarge(TEXT.size(limit)) : error.message || (TEXT.refusals[error.code] ?? TEXT.refusals.HTTP));
  return h('div', { class: 'chip' },
    state === 'ready' && part.mediaType.startsWith('image/')
      ? h('img', { src: address, alt: '' })
      : h(Icon, { name: state === 'refused' ? 'warn' : part.mediaType.startsWith('image/') ? 'image' : 'file' }),
    h('span', { class: 'name', dir: 'auto' }, part.name),
    trouble
      ? h('span', { class: 'bad', role: 'alert' }, trouble)
      : h('span', { class: 'size' }, state === 'sending' ? MORE.uploading(percent) : TEXT.size(part.size)),
    state === 'sending' ? h('progress', { max: 100, value: percent, 'aria-label': part.name }) : null);
}
