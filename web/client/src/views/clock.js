// The time of day in a view that counts. DOM.

import { useEffect, useState } from 'preact/hooks';

/**
 * @param {boolean} counting
 * @returns {number} ms since 1970, renewed while counting
 */
export function useClock(counting) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!counting) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [counting]);
  return now;
}
