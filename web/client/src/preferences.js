// What a person set for this browser. Effects.

import { effect, signal } from '@preact/signals';

/** @typedef {ReturnType<typeof createPreferences>} Preferences */

/** @param {string} base one server may be mounted several times in one origin @param {Storage|null} storage */
export function createPreferences(base, storage) {
  const name = `unbroken:${new URL(base).pathname}:single-keys`;
  /** Whether keys without Ctrl or Alt do something; speech input and unsteady hands need them off (WCAG 2.1.4). */
  const singleKeys = signal(read() !== 'off');
  effect(() => write(singleKeys.value ? 'on' : 'off'));

  function read() {
    try {
      return storage?.getItem(name);
    } catch {
      return null;
    }
  }

  /** @param {string} value */
  function write(value) {
    try {
      if (value !== (read() ?? 'on')) storage?.setItem(name, value);
    } catch {
      // Refused: it holds until the page goes.
    }
  }

  return { singleKeys };
}
