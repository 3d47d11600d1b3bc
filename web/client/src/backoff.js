// How long to wait before trying again. Pure.

const LEAST_MS = 250;
const MOST_MS = 5_000;

// After answers that are empty the server is there and has nothing for us, so haste gains nothing: at
// most six requests in 30 s. Least waits of the 1st, 2nd and every later one; a quarter more is jitter.
const EMPTY_MS = [1_000, 4_000, 10_000];

/**
 * Full jitter above a floor: after a server's restart its readers come back spread over seconds.
 * @param {number} failures in a row, 1 for the first
 * @param {number} random in [0, 1)
 * @param {number} [leastMs] what the server asked for; capped, for a person waits
 * @returns {number} ms
 */
export function backoffMs(failures, random, leastMs = 0) {
  const ceiling = Math.min(MOST_MS, LEAST_MS * 2 ** failures);
  const wait = LEAST_MS + random * (ceiling - LEAST_MS);
  return Math.round(Math.max(wait, Math.min(leastMs, MOST_MS) * (0.75 + random / 4)));
}

/**
 * @param {number} empties in a row, 1 for the first
 * @param {number} random in [0, 1)
 * @returns {number} ms
 */
export function emptyBackoffMs(empties, random) {
  const least = EMPTY_MS[Math.min(empties, EMPTY_MS.length) - 1];
  return Math.round(least * (1 + random / 4));
}
