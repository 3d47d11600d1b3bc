// What the connection of a thread is made of: its state, what happens to it, what it asks for.

/** @import {Cursor, Event} from './types.js' */

/** @typedef {'idle'|'loading'|'connecting'|'open'|'waiting'|'paused'|'lost'|'blocked'} Phase */
/** @typedef {'resume'|'pageshow'|'online'|'visible'|'focus'|'manual'} Wake */

/**
 * @typedef {object} LinkState
 * @property {Phase} phase
 * @property {number} generation grows with each request; what bears an older one is late
 * @property {string|null} stream what is followed, or will be after the wait
 * @property {number} seq last applied event of `stream`
 * @property {readonly string[]} past streams of this turn that `stream` succeeded
 * @property {'connect'|'load'} next what ends a wait or a pause
 * @property {number} attempt failures in a row; cleared by an event or a healthy while
 * @property {number} empties empty answers in a row; cleared by an event
 * @property {number} frames received by this connection
 * @property {'stream'|'poll'} mode how the log is read
 * @property {number} mute connections in a row that fell silent while the server answered; cleared by a
 *   beat that came in time, or when the server does not answer at all
 * @property {number} since ms, when this phase began
 * @property {number} heardAt ms, the last byte of this connection
 * @property {number} until ms, the end of the wait
 * @property {number|null} hiddenAt ms since the page is hidden; null while it is seen
 * @property {string|null} missing the stream that was answered 404; cleared by any other stream
 * @property {string|null} error code of the last failure, for the words on the page
 */

/**
 * What happened. All carry `now` (ms, any monotonic or wall clock); those that may start a wait carry
 * `random` in [0, 1).
 * @typedef {{now: number, random: number} & (
 *   {type: 'load'}
 * | {type: 'loaded', generation: number, target: Cursor|null}
 * | {type: 'follow', target: Cursor}
 * | {type: 'opened', generation: number}
 * | {type: 'bytes', generation: number}
 * | {type: 'frame', generation: number, id: string|null, event: Event|null}
 * | {type: 'closed', generation: number}
 * | {type: 'nothing', generation: number}
 * | {type: 'failed', generation: number, code: string}
 * | {type: 'refused', generation: number, status: number, code: string, retryAfterMs?: number}
 * | {type: 'tick'}
 * | {type: 'wake', reason: Wake}
 * | {type: 'hidden'}
 * | {type: 'freeze'}
 * | {type: 'release'}
 * )} LinkEvent
 */

/**
 * What to do, in this order.
 * @typedef {{type: 'abort', generation: number}
 * | {type: 'timer', at: number|null}
 * | {type: 'connect', generation: number, stream: string, seq: number, mode: 'stream'|'poll'}
 * | {type: 'load', generation: number}
 * | {type: 'apply', event: Event, cursor: Cursor|null}} LinkAction
 */

export {};
