// What the boxes for writing have in common. DOM.

/** So much text fills the box in any window; measuring it would take longer than typing. */
const FULL_CHARS = 20_000;

/** The box grows with its text, up to a limit that the style sheet sets. @param {HTMLTextAreaElement|null} box */
export function fit(box) {
  if (!box) return;
  if (box.value.length > FULL_CHARS) {
    box.style.height = '100vh';
    return;
  }
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight}px`;
}

/** The keyboard of a touch screen has no Shift+Enter worth the name: its Enter begins a line, a button sends. */
export const hasTouchKeyboard = () => matchMedia('(hover: none) and (pointer: coarse)').matches;

/** Where the focus goes when what had it goes away. On a phone the keyboard would cover what was asked for. */
export function focusBox() {
  if (!hasTouchKeyboard()) /** @type {HTMLElement|null} */ (document.querySelector('[data-testid="input"]'))?.focus({ preventScroll: true });
}

/** Whether a key sends what is written. @param {KeyboardEvent} event */
export function isSendKey(event) {
  // While a word is being composed (East Asian input) Enter belongs to the composition.
  if (event.key !== 'Enter' || event.isComposing) return false;
  if (event.ctrlKey || event.metaKey) return true;
  return !event.shiftKey && !event.altKey && !hasTouchKeyboard();
}

/** Whether somebody is writing there. @param {EventTarget|null} target */
export function isWriting(target) {
  return target instanceof HTMLElement && target.closest('input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]') !== null;
}
