// Parts of the page that are loaded when they are first shown, or before, when the browser has nothing to do. DOM.

import { signal } from '@preact/signals';
import { h } from 'preact';

import style from '../styles/extras.css?url';
import { onDemand } from './on_demand.js';

/** @import {ComponentChild, ComponentType} from 'preact' */

/** @typedef {typeof import('./extras.js')} Extras */

/** So long the page must have been there before it loads what nobody asked for yet; it looks again as often. */
const IDLE_MS = 2_000;

/** A pause between two frames is shorter: while an answer is drawn nothing is loaded. */
const NOTHING_TO_DO_MS = 30;

const loaded = signal(/** @type {Extras|null} */ (null));

export const load = onDemand(async () => { loaded.value = await import('./extras.js'); }, style);

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
