// Listens for what tells that the page sleeps or wakes. Effects.

/** @import {Wake} from './link_types.js' */

/**
 * @param {Window} window
 * @param {{wake: (reason: Wake) => void, hidden: () => void, freeze: () => void, online: (on: boolean) => void}} hooks
 * @returns {() => void} takes every listener away again
 */
export function listenForWaking(window, hooks) {
  const { document } = window;
  /** @type {[EventTarget, string, (event: any) => void][]} */
  const pairs = [
    [document, 'visibilitychange', () => (document.hidden ? hooks.hidden() : hooks.wake('visible'))],
    [document, 'freeze', () => hooks.freeze()],
    [document, 'resume', () => hooks.wake('resume')],
    [window, 'pageshow', ({ persisted }) => persisted && hooks.wake('pageshow')],
    [window, 'focus', () => hooks.wake('focus')],
    [window, 'offline', () => hooks.online(false)],
    [window, 'online', () => {
      hooks.online(true);
      hooks.wake('online');
    }],
  ];
  for (const [target, type, listener] of pairs) target.addEventListener(type, listener);
  return () => {
    for (const [target, type, listener] of pairs) target.removeEventListener(type, listener);
  };
}
