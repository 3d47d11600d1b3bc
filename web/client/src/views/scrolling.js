// Where the eye is among the messages: at the end while text comes, elsewhere when the person wants. DOM.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** @import {Thread} from '../thread.js' */
/** @import {Message, ThreadState} from '../thread_state.js' */

/** Scrolling down to so near the end follows it again: a line more or less must not matter. */
const NEAR_END_PX = 64;

/** A trembling finger does not leave the end. */
const LEAVE_END_PX = 8;

/** @typedef {ReturnType<typeof useScrolling>} Scrolling */

/**
 * Follows the text unless the person scrolled up.
 * @param {Thread} thread @param {ThreadState} state
 */
export function useScrolling(thread, state) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const content = useRef(/** @type {HTMLElement|null} */ (null));
  const following = useRef(true); // cleared by scrolling up, set by coming back to the end
  const seen = useRef({ top: 0, height: 0 }); // of the last scroll: which way it went, and whose doing it was
  const [away, setAway] = useState(false);

  const follow = () => {
    if (!following.current || !box.current) return;
    box.current.scrollTop = box.current.scrollHeight;
    // Else one event for both, this and a person who scrolls up in the same frame, would seem to go down.
    seen.current = { top: box.current.scrollTop, height: box.current.scrollHeight };
  };
  const toEnd = () => {
    following.current = true;
    setAway(false);
    follow();
  };
  const leaveEnd = () => {
    following.current = false;
  };
  const onScroll = () => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    const { top, height } = seen.current;
    seen.current = { top: scrollTop, height: scrollHeight };
    const left = scrollHeight - scrollTop - clientHeight;
    // Text that grew or shrank moves the view as well; only a person scrolls up without that.
    if (scrollTop < top && scrollHeight >= height && left > LEAVE_END_PX) following.current = false;
    else if (left < NEAR_END_PX && scrollTop >= top) following.current = true;
    setAway(!following.current && left >= NEAR_END_PX);
  };

  const last = state.outbox.at(-1)?.id;
  useLayoutEffect(toEnd, [thread, last]); // another thread, or a message of one's own
  useEffect(() => {
    // Text that grew, the keyboard of a phone, a line about the connection, a growing message box, a picture, a
    // formula. It comes after the browser's own layout, so that following costs none.
    const observer = new ResizeObserver(follow);
    for (const { current } of [box, content]) if (current) observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return { box, content, away, onScroll, toEnd, leaveEnd };
}

/**
 * Brings the message that is wanted into view, from whatever branch it is on.
 * @param {Thread} thread
 * @param {readonly Message[]} path the messages that are shown
 * @param {Scrolling} scroll
 */
export function useReveal(thread, path, { box, leaveEnd }) {
  const wanted = thread.wanted.value;
  useLayoutEffect(() => {
    const { messages } = thread.view.peek();
    if (!wanted || !messages.some(({ id }) => id === wanted)) return;
    if (!path.some(({ id }) => id === wanted)) {
      thread.select(wanted);
      return;
    }
    thread.wanted.value = null;
    const message = /** @type {HTMLElement|null|undefined} */ (box.current?.querySelector(`[data-id="${CSS.escape(wanted)}"]`));
    leaveEnd();
    message?.scrollIntoView({ block: 'start' });
    message?.focus({ preventScroll: true });
    message?.classList.add('revealed');
  }, [wanted, path]);
}
