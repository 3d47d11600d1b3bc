// The address of a page: the base path alone is a new thread, `t/<thread>` is that thread, `#<message>` a
// message of it. Pure.

const THREAD = /^t\/([A-Za-z0-9_-]{8,64})$/;
const MESSAGE = /^#([A-Za-z0-9_-]{8,64})$/;

/**
 * @param {string} href
 * @param {string} base
 * @returns {string|null} the thread; null: a new one
 */
export function threadOf(href, base) {
  const path = new URL(href).pathname.slice(new URL(base).pathname.length);
  return THREAD.exec(path)?.[1] ?? null;
}

/**
 * @param {string} href
 * @returns {string|null} the message to bring into view
 */
export function messageOf(href) {
  return MESSAGE.exec(new URL(href).hash)?.[1] ?? null;
}

/** @param {string|null} thread @param {string} base @param {string|null} [message] */
export function addressOf(thread, base, message) {
  return new URL(thread ? `t/${thread}${message ? `#${message}` : ''}` : '.', base).href;
}
