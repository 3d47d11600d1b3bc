// Turns of the event loop: one update per animation frame, and a pause for what waits. Effects.

/** Hidden pages have no animation frames; nobody looks, but what is shown there should not grow old. */
const HIDDEN_FRAME_MS = 500;

/**
 * @param {() => void} update
 * @returns {() => void} asks for one update soon; asking again before it comes changes nothing
 */
export function oncePerFrame(update) {
  let asked = false; // set by asking, cleared by the update
  let frame = 0;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  let timer;
  const run = () => {
    // The other one of the two is not to come as well, and take itself for what is asked for next.
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    asked = false;
    update();
  };
  return () => {
    if (asked) return;
    asked = true;
    // Both, always: the page may be hidden before the frame comes, and seen before a timer that browsers
    // hold back in hidden pages; the frame of a hidden page comes when it is seen.
    frame = requestAnimationFrame(run);
    timer = setTimeout(run, HIDDEN_FRAME_MS);
  };
}

/** @type {(() => void)[]} */
const waiting = [];
/** @type {MessageChannel|undefined} its messages are not held back in hidden pages, as timers are */
let channel;

/** Lets everything that waits have its turn. @returns {Promise<void>} */
export function nextTask() {
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => waiting.shift()?.();
  }
  const { port2 } = channel;
  return new Promise((resolve) => {
    waiting.push(resolve);
    port2.postMessage(null);
  });
}
