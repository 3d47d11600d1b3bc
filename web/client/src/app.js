// Puts the page together: address, threads, waking. Effects.

import { computed, signal } from '@preact/signals';

import { createApi } from './api.js';
import { createDrafts, storageOf } from './drafts.js';
import { uuidv7 } from './ids.js';
import { createManager } from './manage.js';
import { createNotices } from './notices.js';
import { createPreferences } from './preferences.js';
import { createRetrier } from './retry.js';
import { addressOf, messageOf, threadOf } from './route.js';
import { createSearch } from './search.js';
import { createTabs } from './tabs.js';
import { createThread } from './thread.js';
import { createThreadList } from './threads.js';
import { createUpload } from './upload.js';
import { listenForWaking } from './wake.js';

/** @import {Change} from './feed.js' */
/** @import {Wake} from './link_types.js' */
/** @import {Thread} from './thread.js' */
/** @import {Models} from './types.js' */

/** @typedef {ReturnType<typeof createApp>} App */

/** What is open above the page. @typedef {{name: 'settings'|'shortcuts'|'remove', thread?: string}} Dialog */

/** So many threads are kept in memory, for going back to them at once. */
const KEPT_THREADS = 20;

/** Signals of waking within this time ask once for what they ask for. */
const WAKE_JOIN_MS = 1_000;

/** @param {Window} window */
export function createApp(window) {
  const { document, history, location } = window;
  const base = document.baseURI;
  const signedOut = signal(false);
  const unknown = { base, signedOut: () => { signedOut.value = true; } };
  const api = createApi(unknown);
  const upload = createUpload(unknown);
  const drafts = createDrafts(base, storageOf(window), storageOf(window, 'sessionStorage'));
  const retrier = createRetrier();
  const threads = createThreadList(api, retrier);
  const dialog = signal(/** @type {Dialog|null} */ (null));
  const models = signal(/** @type {Models|null} */ (null));
  const online = signal(window.navigator.onLine);
  /** @type {Map<string, Thread>} the last used one last */
  const kept = new Map();
  /** @type {import('@preact/signals').Signal<Thread>} */
  const current = signal(enter(threadOf(location.href, base)));

  /** @param {string|null} id null: a new thread */
  function enter(id) {
    const thread = (id && kept.get(id)) || createThread({
      id: id ?? uuidv7(), fresh: id === null, api, drafts, retrier, upload, changed: threads.refresh,
      fileLimit: () => models.value?.limits.attachment ?? Infinity,
    });
    kept.delete(thread.id);
    kept.set(thread.id, thread);
    for (const [old, { view }] of kept) {
      if (kept.size <= KEPT_THREADS) break;
      if (view.peek().outbox.length === 0) kept.delete(old);
    }
    if (document.hidden) thread.hidden();
    thread.enter();
    return thread;
  }

  /** @param {string|null} id */
  function show(id) {
    if (id === current.value.id) return;
    const { phase, outbox } = current.value.view.peek();
    if (id === null && phase === 'new' && !outbox.length && !sent()) return;
    current.value.leave();
    current.value = enter(id);
  }

  /** Whether the new thread that is shown has its address already. */
  const sent = () => threadOf(location.href, base) === current.value.id;

  function moved() {
    show(threadOf(location.href, base));
    reveal();
  }

  /** The message that the address names, if it names one. */
  function reveal() {
    const message = messageOf(location.href);
    if (message) current.value.reveal(message);
  }

  /** @param {string|null} id @param {string|null} [message] */
  function open(id, message) {
    if (id === null) search.look(''); // a new thread is seen in the list
    const address = addressOf(id, base, message);
    if (address !== location.href) history.pushState(null, '', address); // the same again would be a step back that goes nowhere
    moved();
  }

  const currentId = computed(() => current.value.id);
  /** @param {string} id */
  const titleOf = (id) => api.thread(id).then(({ thread }) => thread.title, () => null);
  const notices = createNotices({ window: /** @type {Window & typeof globalThis} */ (window), base, storage: storageOf(window), list: threads.list, currentId, open, titleOf });

  /** @param {Change} change @param {boolean} leading this tab read it for all of them */
  function news(change, leading) {
    if (change.reset) {
      threads.noticed(change);
      void current.value.notice(Infinity);
      return;
    }
    notices.tell(change, leading);
    threads.noticed(change);
    if (change.thread === currentId.peek()) void current.value.notice(change.deleted ? Infinity : change.version);
  }

  const tabs = createTabs({ window: /** @type {Window & typeof globalThis} */ (window), base, api, news });

  const search = createSearch(api);

  const manage = createManager({
    api, retrier, threads,
    changed(info) {
      notices.own(info.id, info.version);
      kept.get(info.id)?.inform(info);
    },
    removed(id) {
      kept.get(id)?.discard();
      kept.delete(id);
      drafts.forget(id);
      if (current.value.id === id) open(null);
    },
  });

  let wokenAt = -WAKE_JOIN_MS; // of the last waking; signals soon after are the same

  /** @param {Wake} reason */
  function wake(reason) {
    current.value.wake(reason); // joins them itself
    const now = performance.now();
    if (now - wokenAt < WAKE_JOIN_MS) return;
    wokenAt = now;
    retrier.wake();
    tabs.wake();
    threads.refresh();
  }

  function tryNow() {
    current.value.wake('manual');
    retrier.wake();
  }

  const stopListening = listenForWaking(window, {
    wake,
    hidden() {
      tabs.hidden();
      current.value.hidden();
    },
    freeze() {
      tabs.freeze();
      current.value.freeze();
    },
    online: (on) => { online.value = on; },
  });
  window.addEventListener('popstate', moved);
  const gone = () => current.value.gone();
  window.addEventListener('pagehide', gone);
  threads.refresh();
  reveal();
  retrier.until(() => api.models(), new AbortController().signal).then((known) => { models.value = known; }, () => undefined);

  return {
    api, dialog, search, threads, manage, models, notices, online, current, currentId, signedOut,
    preferences: createPreferences(base, storageOf(window)),

    /** @param {string|null} id null: a new thread @param {string|null} [message] to bring into view */
    open,

    /** @param {string} id @param {string} [message] */
    hrefOf: (id, message) => addressOf(id, base, message),

    /** What is in the message box. @param {'queue'|'interrupt'} [during] */
    send(during) {
      if (!sent()) history.pushState(null, '', addressOf(current.value.id, base));
      current.value.sendDraft(during);
    },

    /** "Try now". */
    wake: tryNow,

    /** Everything goes on where it was. Raises ApiError. @param {string} token */
    async signIn(token) {
      await api.signIn(token);
      signedOut.value = false;
      tryNow();
    },

    close() {
      window.removeEventListener('popstate', moved);
      window.removeEventListener('pagehide', gone);
      stopListening();
      tabs.close();
      notices.close();
      current.value.leave();
    },
  };
}
