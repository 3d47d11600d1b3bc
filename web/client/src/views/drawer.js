// The list of threads in narrow windows: it lies over the page, and the page waits meanwhile. DOM.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** As in styles/page.css. */
const NARROW = '(max-width: 760px)';

/**
 * Wide windows always show the list; there it is never open.
 * @returns {{open: boolean, show: (open: boolean, first?: string) => void, close: () => void, side: {current: HTMLElement|null}, button: {current: HTMLButtonElement|null}}}
 */
export function useDrawer() {
  const [open, setOpen] = useState(false);
  const side = useRef(/** @type {HTMLElement|null} */ (null));
  const button = useRef(/** @type {HTMLButtonElement|null} */ (null));
  const first = useRef(''); // what gets the focus
  const show = useCallback((/** @type {boolean} */ wanted, what = 'a') => {
    first.current = what;
    setOpen(wanted && matchMedia(NARROW).matches);
  }, []);
  const close = useCallback(() => show(false), []);
  useEffect(() => {
    if (!open) return undefined;
    if (!side.current?.contains(document.activeElement)) /** @type {HTMLElement|null|undefined} */ (side.current?.querySelector(first.current))?.focus();
    const narrow = matchMedia(NARROW);
    narrow.addEventListener('change', close); // turned around, or made wide
    return () => {
      narrow.removeEventListener('change', close);
      // Whatever had the focus in the list is gone from sight.
      if (!document.activeElement || document.activeElement === document.body || side.current?.contains(document.activeElement)) button.current?.focus();
    };
  }, [open]);
  return { open, show, close, side, button };
}
