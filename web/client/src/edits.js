// Questions that are being rewritten: what was written of them survives another thread, another question and a
// reload. Effects.

import { signal } from '@preact/signals';

/** What was written of a question. @typedef {{message: string, text: string}} Rewriting */

/** @typedef {ReturnType<typeof createEdits>} Edits */

/** @param {readonly Rewriting[]} kept the last one last @param {(rewritings: readonly Rewriting[]) => void} keep */
export function createEdits(kept, keep) {
  let all = kept;
  /** The one that is shown. */
  const message = signal(kept.at(-1)?.message ?? null);

  /** @param {readonly Rewriting[]} next */
  function update(next) {
    all = next;
    keep(next);
  }

  /** @param {string} id */
  const without = (id) => all.filter((rewriting) => rewriting.message !== id);

  return {
    message,

    /** What was written of it; null: nothing yet. @param {string} id */
    textOf: (id) => all.find((rewriting) => rewriting.message === id)?.text ?? null,

    /** @param {string} id */
    begin(id) {
      message.value = id;
    },

    /** @param {string} id @param {string} text */
    write: (id, text) => update([...without(id), { message: id, text }]),

    /** It is sent, or stays as it was. @param {string} id */
    end(id) {
      update(without(id));
      if (message.peek() === id) message.value = null;
    },
  };
}
