// `<stream>:<seq>` of web/PROTOCOL.md. Pure.

/** @import {Cursor} from './types.js' */

const SHAPE = /^([A-Za-z0-9_-]{1,64}):(0|[1-9][0-9]{0,15})$/;

/**
 * @param {string|null|undefined} text
 * @returns {Cursor|null} null where it is not a cursor
 */
export function parseCursor(text) {
  const match = SHAPE.exec(text ?? '');
  return match && { stream: match[1], seq: Number(match[2]) };
}

/** @param {Cursor} cursor */
export function formatCursor({ stream, seq }) {
  return `${stream}:${seq}`;
}
