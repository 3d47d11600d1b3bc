// Work that can wait, in slices so short that nobody feels them. DOM.

import { oncePerFrame } from '../frames.js';

/** Of a slice; there is one for each frame, since what it draws costs that frame as much again. */
const SLICE_MS = 4;

let changed = false; // a slice has run that no frame has drawn yet

/** @type {Set<() => void>} in the order they were asked for */
const jobs = new Set();

// After the frame, not in it.
const nextSlice = oncePerFrame(() => setTimeout(slice));

/**
 * @param {() => void} job may take as long as a slice at most
 * @returns {() => void} takes it back
 */
export function later(job) {
  jobs.add(job);
  nextSlice();
  return () => void jobs.delete(job);
}

/** Whether this frame has a slice's changes to draw already. Asked once in each frame. */
export function drawsLater() {
  const answer = changed;
  changed = false;
  return answer;
}

function slice() {
  changed = true;
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
  if (jobs.size > 0) nextSlice();
}
