// How long a model has said nothing: pages that stand still are taken for broken. DOM.

import { useEffect, useRef, useState } from 'preact/hooks';

/** @import {Fold} from '../fold.js' */
/** @import {Connection} from '../thread.js' */

/** Most models think for less before their first word, or between two. */
const SILENCE_S = 30;

/**
 * Counted from what this page saw last.
 * @param {Fold} fold of an answer that goes on; another one with each event
 * @param {Connection} connection
 * @returns {number} seconds; 0 while that is no news
 */
export function useSilence(fold, connection) {
  const { shown } = connection;
  const heard = useRef({ fold, shown, at: performance.now() });
  if (heard.current.fold !== fold || heard.current.shown !== shown) heard.current = { fold, shown, at: performance.now() };
  const [, draw] = useState(0);
  const seconds = () => Math.floor((performance.now() - heard.current.at) / 1_000);
  // A tool tells its own time, and what a lost connection would bring nobody knows.
  const waiting = shown === 'quiet' && !fold.parts.some((part) => part.type === 'tool' && part.state === 'running');
  useEffect(() => {
    if (!waiting) return undefined;
    const timer = setInterval(() => { if (seconds() >= SILENCE_S) draw(seconds()); }, 1_000);
    return () => clearInterval(timer);
  }, [waiting]);
  return waiting && seconds() >= SILENCE_S ? seconds() : 0;
}
