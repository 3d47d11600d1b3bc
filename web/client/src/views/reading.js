// Reads Markdown in short steps: all texts of the page share a little time of each frame. DOM.

import { useEffect, useRef, useState } from 'preact/hooks';

import { nextTask, oncePerFrame } from '../frames.js';
import { NO_BLOCKS, growBlocks } from '../markdown/blocks.js';
import { drawsLater } from './later.js';

/** @import {Blocks} from '../markdown/blocks.js' */

/** So much text is read between two looks at the clock: as much as is drawn in time. */
const LEAST_STEP_CHARS = 128;
const MOST_STEP_CHARS = 2_048;

/** What a frame may take, reading and drawing together; a page that is blocked for longer than 50 ms feels stuck. */
const SHORT_MS = 8;
const LONG_MS = 16;

/** For reading in one frame; drawing what was read takes several times as long. */
const FRAME_MS = 3;

/** A step that took longer than its frame costs so many of the next ones at most: often others are to blame. */
const LONGEST_REST_FRAMES = 4;

/** A short text that is shown first is there at once, or most of it, whatever the frames before it took. */
const SHORT_CHARS = 2_048;
const SHORT_FRAME_MS = LONGEST_REST_FRAMES * FRAME_MS + 2;

/** @typedef {{blocks: Blocks, text: string, redraw: () => void}} Reader */

/** Those that are not at the end of their text, in the order they were shown. @type {Set<Reader>} */
const behind = new Set();

let step = 256; // characters; at first everything takes longer
let spent = 0; // ms of this frame and, where a step took longer, of the next ones
let rests = false; // in this frame
let frame = -1; // the time of the frame that `spent` is of

function beginFrame() {
  const now = performance.now();
  const time = document.hidden ? now : Number(document.timeline?.currentTime ?? now);
  if (time === frame) return;
  frame = time;
  // What a slice of other work has changed costs this frame as much again; but reading waits for one frame only.
  rests = drawsLater() && !rests;
  spent = rests ? Math.max(spent, FRAME_MS) : Math.max(0, spent - FRAME_MS);
  void measure(now);
}

/** Drawing takes several times as long as reading, and how long the machine, the text and the screen decide. @param {number} begun */
async function measure(begun) {
  await nextTask(); // the first after the frame
  const took = performance.now() - begun;
  if (took > LONG_MS) step = Math.max(LEAST_STEP_CHARS, step / 2);
  else if (took < SHORT_MS) step = Math.min(MOST_STEP_CHARS, step * 2);
}

/** Reads on, as long as this frame has time. @param {Reader} reader */
function advance(reader) {
  beginFrame();
  const { text } = reader;
  const begun = performance.now();
  let next = text.length < reader.blocks.length ? NO_BLOCKS : reader.blocks;
  const limit = next.length === 0 && text.length <= SHORT_CHARS ? SHORT_FRAME_MS : FRAME_MS;
  while (next.length < text.length && spent + performance.now() - begun < limit) {
    const end = next.length + step;
    next = growBlocks(next, end < text.length ? text.slice(0, end) : text);
  }
  spent = Math.min(spent + performance.now() - begun, LONGEST_REST_FRAMES * FRAME_MS);
  reader.blocks = next;
  if (next.length < text.length) behind.add(reader);
  else behind.delete(reader);
}

const readOn = oncePerFrame(() => {
  // The last ones first: a conversation is seen from its end.
  for (const reader of [...behind].reverse()) {
    beginFrame();
    if (spent >= FRAME_MS) break;
    advance(reader);
    reader.redraw();
  }
  if (behind.size) readOn();
});

/**
 * The blocks of a text that may grow, as far as they are read.
 * @param {string} text
 * @returns {Blocks}
 */
export function useBlocks(text) {
  const [, draw] = useState(0);
  const reader = useRef(/** @type {Reader} */ ({ blocks: NO_BLOCKS, text, redraw: () => draw((count) => count + 1) })).current;
  reader.text = text;
  advance(reader);
  useEffect(() => {
    if (behind.has(reader)) readOn();
  });
  useEffect(() => () => void behind.delete(reader), []);
  return reader.blocks;
}
