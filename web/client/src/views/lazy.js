// Parts of the page that are loaded when they are first shown, or before, when the browser has nothing to do. DOM.

import { signal } from '@preact/signals';
import { h } from 'preact';

/** @import {ComponentChild, ComponentType} from 'preact' */

/** @typedef {typeof import('./extras.js')} Extras */

/** So long the page must have been there before it loads what nobody asked for yet; it looks again as often. */
const IDLE_MS = 2_000;

/** A pause between two frames is shorter. While an answer is drawn a new style is dear: the whole page is looked through. */
const NOTHING_TO_DO_MS = 30;

/** A load that failed is tried again after so long. */
const AGAIN_MS = 3_000;

const loaded = signal(/** @type {Extras|null} */ (null));
let asked = false; // set while they are on their way, and when they are there

/** Idempotent. */
export async function load() {
  if (asked) return;
  asked = true;
  try {
    loaded.value = await import('./extras.js');
  } catch {
    asked = false;
    setTimeout(load, AGAIN_MS); // what was asked for is still not shown
  }
}

/**
 * @template {object} P
 * @param {(extras: Extras) => ComponentType<P>} choose
 * @returns {(props: P) => ComponentChild} shows nothing until it is there
 */
export function lazy(choose) {
  return (props) => {
    if (!loaded.value) void load();
    return loaded.value && h(/** @type {any} */ (choose(loaded.value)), props);
  };
}

/** What is needed later should be there when the network is not. */
export function loadWhenIdle() {
  setTimeout(() => {
    if (!window.requestIdleCallback) {
      void load();
      return;
    }
    window.requestIdleCallback((deadline) => {
      if (deadline.timeRemaining() >= NOTHING_TO_DO_MS) void load();
      else loadWhenIdle();
    });
  }, IDLE_MS);
}
