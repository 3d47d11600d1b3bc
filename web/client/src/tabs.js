// One tab of the browser reads the feed for all of them. Effects.
//
// Browsers allow six connections per server over HTTP/1.1, so tabs must not hold one each. Who holds the
// lock reads and tells the others; when that tab closes, the lock passes to the next one, which goes on
// after the last change it was told. A tab that is frozen keeps its lock and says nothing: a tab that can
// be seen and hears nothing takes the lock from it.

import { readFeed } from './feed.js';
import { LIVENESS_MS } from './link_transitions.js';

/** @import {Api} from './api.js' */
/** @import {Change} from './feed.js' */

/** The reader tells the others that it lives, at most so often. */
const BEAT_MS = 2_500;

/** @typedef {{type: 'news', id: string, change: Change} | {type: 'beat', id: string|null}} Word */

/** @typedef {ReturnType<typeof createTabs>} Tabs */

/**
 * @param {object} options
 * @param {Window & typeof globalThis} options.window
 * @param {string} options.base one server may be mounted several times in one origin
 * @param {Api} options.api
 * @param {(change: Change, leading: boolean) => void} options.news `leading`: this tab read it itself
 */
export function createTabs({ window, base, api, news }) {
  const name = `unbroken:${new URL(base).pathname}:feed`;
  const { document } = window;
  const locks = window.navigator.locks;
  const channel = locks && window.BroadcastChannel ? new window.BroadcastChannel(name) : null;
  /** @type {string|null} the last change that is known here */
  let last = null;
  /** @type {AbortController|null} of the feed this tab reads; null: another one does */
  let reading = null;
  let heardAt = Date.now(); // the last sign of whoever reads
  let toldAt = 0; // the last beat we gave
  let queued = false; // for the lock, or holding it
  let closed = false; // set once
  const watch = setInterval(look, LIVENESS_MS / 2);

  /** @param {Word} word */
  const tell = (word) => channel?.postMessage(word);

  /** @param {string} id @param {Change} change @param {boolean} leading */
  function take(id, change, leading) {
    last = id;
    news(change, leading);
  }

  /** Reads until this tab stops, sleeps or has the lock taken from it. */
  async function lead() {
    if (closed || reading) return;
    const controller = new AbortController();
    reading = controller;
    await readFeed(api, last, {
      heard() {
        heardAt = Date.now();
        if (heardAt - toldAt < BEAT_MS) return;
        toldAt = heardAt;
        tell({ type: 'beat', id: last });
      },
      news(id, change) {
        take(id, change, true);
        tell({ type: 'news', id, change });
      },
    }, controller.signal);
    if (reading === controller) reading = null;
  }

  /** @param {boolean} [steal] take the lock from a tab that says nothing any more */
  function elect(steal = false) {
    if (closed || (queued && !steal)) return;
    if (!channel) {
      if (!document.hidden) void lead();
      return;
    }
    queued = true;
    heardAt = Date.now(); // whoever holds it has time to speak
    locks.request(name, steal ? { steal } : {}, lead).then(() => { queued = false; }, () => {
      // It was taken from us.
      queued = false;
      resign();
      if (!document.hidden) elect();
    });
  }

  function resign() {
    reading?.abort(new DOMException('resigned', 'AbortError'));
    reading = null;
  }

  /** A tab that is seen must not depend on one that fell silent. */
  function look() {
    if (closed || document.hidden || reading) return;
    if (channel && queued && Date.now() - heardAt > LIVENESS_MS) elect(true);
    else elect();
  }

  /** @param {MessageEvent<Word>} message */
  function heard({ data }) {
    heardAt = Date.now();
    if (data.type === 'news') take(data.id, data.change, false);
    else if (last === null) last = data.id; // what came before is in the list that is being loaded
    // We were asleep while it was told.
    else if (data.id !== last && data.id !== null && !reading) take(data.id, { reset: true }, false);
  }

  channel?.addEventListener('message', heard);
  elect();

  return {
    /** Signals that the page is awake: what was read before may be deaf now. */
    wake() {
      if (reading && Date.now() - heardAt < LIVENESS_MS / 2) return;
      resign();
      elect();
      look();
    },

    /** The page is hidden. Without locks every tab has its own feed, and a hidden one gives it back. */
    hidden() {
      if (!channel) resign();
    },

    /** The page is about to sleep: another one may read. */
    freeze: resign,

    close() {
      closed = true;
      clearInterval(watch);
      resign();
      channel?.close();
    },
  };
}
