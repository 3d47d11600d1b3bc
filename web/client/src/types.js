// The shapes of web/PROTOCOL.md, for the type checker only: this file has no code.

/** @typedef {{inputTokens?: number, outputTokens?: number, cachedTokens?: number}} Usage */

/** @typedef {{type: 'step-start'}} StepPart */
/** @typedef {{type: 'text'|'reasoning', id: string, text: string, state: 'streaming'|'done'}} TextPart */
/**
 * @typedef {object} ToolPart
 * @property {'tool'} type
 * @property {string} toolCallId
 * @property {string} toolName
 * @property {'input-streaming'|'input-available'|'input-error'|'running'|'output-available'|'output-error'} state
 * @property {string} inputText
 * @property {unknown} [input]
 * @property {unknown} [output]
 * @property {string} [errorText]
 * @property {boolean} [unknown] the tool may have had its effect
 * @property {number} [startedAt] ms since 1970
 * @property {number} [endedAt] ms since 1970
 */
/**
 * A file of a question.
 * @typedef {{type: 'file', attachment: string, name: string, mediaType: string, size: number}} FilePart
 */
/** @typedef {StepPart|TextPart|ToolPart|FilePart} Part */

/**
 * @typedef {object} Status
 * @property {string} state connecting, retrying, recovering, queued
 * @property {string} text
 * @property {number} [attempt]
 * @property {number} [limit]
 * @property {number} [until] ms since 1970
 */

/**
 * @typedef {object} Outcome
 * @property {'finished'|'failed'|'cancelled'|'aborted'|'interrupted'} outcome
 * @property {string} code
 * @property {string} text
 * @property {boolean} retryable
 * @property {number} [at] ms since 1970
 * @property {string} [finishReason]
 * @property {Usage} [usage]
 */

/**
 * An event of the log. Types are open: what is unknown is ignored.
 * @typedef {{type: string, [field: string]: any}} Event
 */

/** @typedef {'queued'|'running'|'finished'|'failed'|'cancelled'|'aborted'|'interrupted'} TurnState */

/**
 * @typedef {object} WireTurn
 * @property {TurnState} state
 * @property {string} stream
 * @property {string|null} cursor `<stream>:<seq>`, null once it has ended
 * @property {string|null} [model]
 * @property {Status|null} status
 * @property {Outcome|null} outcome
 */

/**
 * @typedef {object} WireMessage
 * @property {string} id
 * @property {string|null} parent
 * @property {'user'|'assistant'} role
 * @property {number} createdAt ms since 1970
 * @property {Part[]} parts
 * @property {WireTurn} [turn]
 */

/**
 * @typedef {object} ThreadInfo
 * @property {string} id
 * @property {string|null} title
 * @property {number} createdAt
 * @property {number} updatedAt
 * @property {number} version
 * @property {'idle'|'queued'|'running'} state
 * @property {string|null} [leaf]
 * @property {boolean} [pinned]
 * @property {string|null} [model] null: the default
 * @property {string|null} [instructions]
 */

/** @typedef {{thread: ThreadInfo, messages: WireMessage[]}} Snapshot */

/** @typedef {{threads: ThreadInfo[], next: string|null}} ThreadPage */

/**
 * The answer to a message that was accepted.
 * @typedef {object} Accepted
 * @property {string} thread
 * @property {string} message
 * @property {string} turn
 * @property {string} stream
 * @property {string} cursor
 * @property {TurnState} state
 * @property {boolean} repeated
 */

/**
 * @typedef {object} ModelInfo
 * @property {string} name
 * @property {string} provider
 * @property {string} model
 * @property {boolean} [demo]
 * @property {string} [problem] why a request would fail now, a sentence; empty: nothing is known to be wrong
 */

/**
 * What there is to choose from, and what may be sent.
 * @typedef {{default: string, models: ModelInfo[], limits: {body: number, attachment: number}}} Models limits in bytes
 */

/** What may be changed of a thread. @typedef {{title?: string, pinned?: boolean, model?: string|null, instructions?: string|null, leaf?: string}} ThreadChange */

/**
 * A message that was found.
 * @typedef {object} Hit
 * @property {string} thread
 * @property {string} title
 * @property {string} message
 * @property {'user'|'assistant'} role
 * @property {number} at ms since 1970
 * @property {{text: string, hit?: boolean}[]} snippet
 */

/** @typedef {{hits: Hit[]}} Hits newest first */

/** @typedef {{stream: string, seq: number}} Cursor applied up to and with `seq` */

export {};
