// Work that can wait, in slices so short that nobody feels them. DOM.

/** Of a slice; with what the browser does after it a frame is not missed by much. */
const SLICE_MS = 5;

/** @type {Set<() => void>} in the order they were asked for */
const jobs = new Set();
let running = false; // set while a slice is asked for, cleared by the last one

/**
 * @param {() => void} job may take as long as a slice at most
 * @returns {() => void} takes it back
 */
export function later(job) {
  jobs.add(job);
  if (!running) {
    running = true;
    setTimeout(slice);
  }
  return () => void jobs.delete(job);
}

function slice() {
  const end = performance.now() + SLICE_MS;
  for (const job of jobs) {
    jobs.delete(job);
    try {
      job();
    } catch (error) {
      reportError(error);
    }
    if (performance.now() >= end) break;
  }
  running = jobs.size > 0;
  if (running) setTimeout(slice);
}
