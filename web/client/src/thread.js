// One thread as the page holds it: state, connection and what the person does. Effects.

import { signal } from '@preact/signals';

import { createAbsence } from './absence.js';
import { ApiError } from './api.js';
import { endOf, rewriting } from './branches.js';
import { createDraftFiles } from './draft_files.js';
import { createEdits } from './edits.js';
import { oncePerFrame } from './frames.js';
import { uuidv7 } from './ids.js';
import { createLink } from './link.js';
import { shown } from './link_state.js';
import { createOutbox } from './outbox.js';
import {
  accept, applyEvent, choose, emptyThread, ended, enqueue, find, informed, merge, missing, setStopping,
} from './thread_state.js';

/** @import {Api} from './api.js' */
/** @import {Drafts} from './drafts.js' */
/** @import {LinkState, Wake} from './link_types.js' */
/** @import {Retrier} from './retry.js' */
/** @import {Message, Outgoing, ThreadState} from './thread_state.js' */
/** @import {Accepted, Cursor, Event, FilePart, ThreadChange, ThreadInfo} from './types.js' */
/** @import {Upload} from './upload.js' */

/** @typedef {ReturnType<typeof createThread>} Thread */

/** @typedef {{shown: ReturnType<typeof shown>, until: number, waiting: boolean, polling: boolean}} Connection */

/** @typedef {Partial<Pick<Outgoing, 'parent'|'during'|'replaces'|'files'>>} Sending */

/** What a thread is answered with; null: the default, none. @typedef {{model: string|null, instructions: string|null}} Settings */

/**
 * Sending goes on after `leave`; reading does not.
 * @param {object} options
 * @param {string} options.id
 * @param {boolean} options.fresh nobody has written to it yet
 * @param {Api} options.api
 * @param {Drafts} options.drafts
 * @param {Retrier} options.retrier
 * @param {Upload} options.upload
 * @param {() => number} options.fileLimit bytes of one file
 * @param {() => void} options.changed the list of threads has become old
 */
export function createThread({ id, fresh, api, drafts, retrier, upload, fileLimit, changed }) {
  /** @type {ThreadState} */
  let state = { ...emptyThread(id, fresh ? 'new' : 'loading'), outbox: drafts.outbox(id) };
  const view = signal(state);
  const connection = signal(/** @type {Connection} */ ({ shown: 'quiet', until: 0, waiting: false, polling: false }));
  const draft = signal(drafts.text(draftKey()));
  const files = createDraftFiles({
    upload, retrier, limit: fileLimit, kept: drafts.files(draftKey()), keep: (parts) => drafts.keepFiles(draftKey(), parts),
  });
  /** What a new thread is to be answered with: its first message says so, or else a change when it is there. */
  const wishes = signal(/** @type {Settings} */ ({ model: null, instructions: null }));
  /** A message to be brought into view; cleared when it is. */
  const wanted = signal(/** @type {string|null} */ (null));
  const edits = createEdits(drafts.edits(id), (rewritings) => drafts.keepEdits(id, rewritings));
  /** @type {Map<string, AbortController>} of stops that are on their way, by answer */
  const stops = new Map();
  let late = false; // wishes have changed since the first message named them; cleared when the server knows them
  let selecting = new AbortController(); // of the selected branch on its way to the server
  let newest = 0; // version the feed told of while `notice` was not done with an older one
  let noticing = false; // one snapshot at a time; set while it is under way

  const absence = createAbsence(drafts.left(id), (at) => drafts.keepLeft(id, at));
  const publish = oncePerFrame(() => { view.value = state; });
  const link = createLink(api, { apply, load, changed: linkChanged });
  const outbox = createOutbox({
    thread: id, api, retrier, state: () => state, update, accepted,
    settled: () => { if (newest) void notice(newest); }, // put off, for it might have been our own doing
  });

  /** Until it is sent to, a new thread has no address that a reload would bring back. */
  function draftKey() {
    return fresh && state.phase === 'new' && !state.outbox.length ? 'new' : id;
  }

  /** @param {string} text */
  function write(text) {
    draft.value = text;
    drafts.keepText(draftKey(), text);
  }

  /** @param {ThreadState} next */
  function update(next) {
    if (next === state) return;
    if (next.outbox !== state.outbox) drafts.keepOutbox(id, next.outbox, state.outbox);
    state = next;
    publish();
  }

  /** @param {LinkState} next */
  function linkChanged(next) {
    if (next.phase === 'open' || next.phase === 'idle') absence.heard();
    else if (state.live && (next.phase === 'waiting' || next.phase === 'paused')) absence.deaf();
    const { shown: before, until, waiting, polling } = connection.peek();
    const now = {
      shown: shown(next), until: next.until, waiting: next.phase === 'waiting', polling: next.mode === 'poll' && next.phase === 'open',
    };
    if (now.shown !== before || now.until !== until || now.waiting !== waiting || now.polling !== polling) connection.value = now;
  }

  // reading

  /** @param {AbortSignal} signal @returns {Promise<Cursor|null>} */
  async function load(signal) {
    const before = state.accepts;
    try {
      const snapshot = await api.thread(id, signal);
      const { live } = state;
      update(merge(state, snapshot, before));
      const turn = live && find(state, live.id)?.turn;
      if (turn && turn.stream !== live.turn?.stream) absence.restarted();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      if (state.accepts === before) update(missing(state));
    }
    outbox.deliver();
    return state.live?.cursor ?? null;
  }

  /**
   * The server says that the thread changed. What is known already is not asked for; a stream that is
   * open is not disturbed.
   * @param {number} version
   */
  async function notice(version) {
    newest = Math.max(newest, version);
    if (noticing || document.hidden || state.phase !== 'ready' || outbox.busy()) return;
    noticing = true;
    try {
      while (newest > (state.info?.version ?? 0)) {
        const asked = newest;
        await load(new AbortController().signal);
        followNext();
        if (newest === asked) break; // the snapshot may be older than the feed by a moment, not for long
      }
    } catch (error) {
      if (!(error instanceof ApiError)) reportError(error); // else the link finds out
    } finally {
      newest = 0;
      noticing = false;
    }
  }

  /** @param {Event} event @param {Cursor|null} cursor */
  function apply(event, cursor) {
    const over = event.type === 'outcome' ? state.live?.id : undefined;
    update(applyEvent(state, event, cursor));
    if (event.type === 'superseded' || event.type === 'snapshot') absence.restarted();
    if (!over) return;
    stops.get(over)?.abort();
    followNext();
    changed();
  }

  function followNext() {
    if (state.live?.cursor) link.follow(state.live.cursor);
  }

  // sending

  /** @param {string} text @param {Sending} [options] */
  function send(text, { parent, during = 'queue', replaces, files: parts = [] } = {}) {
    const first = state.phase === 'new' && !state.outbox.length;
    absence.away.value = null;
    const { model, instructions } = wishes.value;
    // The server may not have heard yet which branch is selected.
    const follows = parent === undefined && state.choosing ? state.choosing : parent;
    selecting.abort(new DOMException('sent', 'AbortError'));
    update(enqueue(state, {
      id: uuidv7(), text, files: parts, parent: follows, during, error: null, refused: false,
      ...(replaces ? { replaces } : {}),
      ...(first && model ? { model } : {}), ...(first && instructions ? { instructions } : {}),
    }));
    outbox.deliver();
  }

  /** What is in the message box. @param {'queue'|'interrupt'} [during] */
  function sendDraft(during) {
    const text = draft.value;
    const parts = files.take();
    write('');
    send(text, { files: parts, during });
  }

  /** A new version of a question. @param {Message} message @param {string} text @param {readonly FilePart[]} parts */
  function rewrite({ id: question, parent }, text, parts) {
    send(text, { parent, files: parts, ...rewriting(state, question) });
  }

  /** Another answer to a question, beside those there are. @param {string} questionId */
  function answerAgain(questionId) {
    if (state.outbox.some(({ question, refused }) => question === questionId && !refused)) return; // clicked twice
    update(enqueue(state, { id: uuidv7(), question: questionId, text: '', during: 'queue', error: null, refused: false }));
    outbox.deliver();
  }

  /** After a stop. @param {string} text asks for the rest */
  function goOn(text) {
    if (!state.outbox.length && state.live?.id !== state.leaf) send(text); // else it was clicked twice
  }

  /** @param {Accepted} taken @param {Outgoing} outgoing */
  function accepted(taken, outgoing) {
    update(accept(state, taken, Date.now(), outgoing.id));
    if (late) void change(wishes.value, new AbortController().signal);
    late = false;
    const answer = find(state, taken.turn);
    // Sent before, and over by now, or what waited is in another place: only a snapshot knows.
    if (!answer || ended(answer.turn) || outgoing.replaces) link.load();
    else followNext();
    changed();
  }

  /** Takes a message back that the server may not have; its text is the caller's. @param {string} messageId */
  function takeBack(messageId) {
    const outgoing = outbox.takeBack(messageId);
    if (!outgoing) return;
    write([draft.value, outgoing.text].filter(Boolean).join('\n\n'));
    files.putBack(outgoing.files ?? []);
  }

  // stopping

  /** @param {string} answerId */
  async function stop(answerId) {
    const stream = find(state, answerId)?.turn?.stream;
    if (!stream || stops.has(answerId)) return;
    const followed = state.live?.id === answerId;
    const controller = new AbortController();
    stops.set(answerId, controller);
    update(setStopping(state, answerId, true));
    try {
      await retrier.until(() => api.stop(stream, controller.signal), controller.signal);
      if (!followed) link.load(); // nobody tells us of a turn that waits
    } catch (error) {
      if (controller.signal.aborted) return; // it ended
      update(setStopping(state, answerId, false));
      if (error instanceof ApiError) link.load();
      else reportError(error);
    } finally {
      stops.delete(answerId);
    }
  }

  // the thread itself

  /** Shows the newest branch through a message. @param {string} messageId */
  function select(messageId) {
    const leaf = endOf(state.messages, messageId);
    if (leaf === state.leaf) return;
    update(choose(state, leaf));
    selecting.abort(new DOMException('selected again', 'AbortError'));
    selecting = new AbortController();
    void change({ leaf }, selecting.signal);
  }

  /** @param {ThreadChange} wish @param {AbortSignal} abort */
  async function change(wish, abort) {
    try {
      inform(await retrier.until(() => api.change(id, wish, abort), abort));
      changed();
    } catch (error) {
      if (!abort.aborted && !(error instanceof ApiError)) reportError(error);
    }
  }

  /** @param {ThreadInfo} info */
  function inform(info) {
    update(informed(state, info));
  }

  /** @param {Partial<Settings>} settings */
  function set(settings) {
    wishes.value = { ...wishes.value, ...settings };
    late = state.phase === 'new' && state.outbox.length > 0;
    if (state.phase === 'new') return;
    if (state.info) update({ ...state, info: { ...state.info, ...settings } });
    void change(settings, new AbortController().signal);
  }

  return {
    id, view, connection, draft, files, wishes, wanted, edits, write, send, rewrite, sendDraft, answerAgain, goOn, stop, takeBack, select, set, inform, notice,
    away: absence.away,
    sendAgain: outbox.sendAgain,

    /** Address of an attached file. */
    fileAddress: api.attachment,

    /** Brings a message into view, whatever branch it is on. @param {string} messageId */
    reveal(messageId) {
      wanted.value = messageId;
    },

    /** It is shown: load it, follow it. */
    enter() {
      if (state.phase === 'new') outbox.deliver();
      else link.load();
    },

    /** It is not shown any more: no connection is held for it. */
    leave: () => link.release(),

    /** It was deleted. */
    discard: outbox.discard,

    /** @param {Wake} reason */
    wake(reason) {
      if (state.phase !== 'new') link.wake(reason);
    },
    hidden: () => link.hidden(),
    freeze: () => link.freeze(),
    /** The page goes: what it was reading is remembered. */
    gone() {
      if (state.live) absence.gone();
    },
  };
}
