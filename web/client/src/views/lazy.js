// Parts of the page that are loaded when they are first shown, or before, when the browser has nothing to do. DOM.

import { signal } from '@preact/signals';
import { h } from 'preact';

/** @import {ComponentChild, ComponentType} from 'preact' */

/** So long the page must have been there before it loads what nobody asked for yet. */
const IDLE_MS = 2_000;

/** @type {(() => void)[]} */
const waiting = [];

/**
 * @template {object} P
 * @param {() => Promise<ComponentType<P>>} load
 * @returns {(props: P) => ComponentChild} shows nothing until it is there
 */
export function lazy(load) {
  const loaded = signal(/** @type {{component: ComponentType<P>}|null} */ (null));
  let asked = false; // set while it is on its way; a load that failed is tried again by the next use
  const ask = () => {
    if (asked) return;
    asked = true;
    load().then((component) => { loaded.value = { component }; }, () => { asked = false; });
  };
  waiting.push(ask);
  return (props) => {
    if (!loaded.value) ask();
    return loaded.value && h(/** @type {any} */ (loaded.value.component), props);
  };
}

/** What is needed later should be there when the network is not. */
export function loadWhenIdle() {
  const all = () => waiting.forEach((ask) => ask());
  setTimeout(() => (window.requestIdleCallback ? window.requestIdleCallback(all) : all()), IDLE_MS);
}
