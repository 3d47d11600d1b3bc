// Every word the page says by itself; those of what is loaded later are in text_extras.js.

/** @import {Status} from './types.js' */

export const TEXT = {
  product: 'Unbroken',
  newThread: 'New chat',
  threads: 'Chats',
  noThreads: 'No chats yet',
  untitled: 'New chat',
  threadMenu: (/** @type {string} */ title) => `Options of “${title}”`,
  pinned: 'Pinned',

  search: 'Search',
  searchHint: 'Search all chats',
  searchClear: 'Clear the search',

  unread: 'Unread',
  notify: 'Tell me when an answer is ready',
  answerEnded: 'The answer has ended.',
  buffered: 'Something on the way holds streams back, so the page asks every few seconds instead.',

  showThreads: 'Show chats',
  older: 'Show older chats',
  working: 'Answering',
  waitingInQueue: 'In the queue',

  conversation: 'Conversation',
  welcome: 'What can I do for you?',
  welcomeNote: 'Answers go on when you close this page, reload it or lose the network.',
  loading: 'Loading…',
  missing: 'There is no such chat. It may have been deleted.',

  composer: 'Message',
  composerHint: 'Write a message',
  composerGone: 'This chat does not exist any more',
  composerQueueHint: 'Write the next message',
  send: 'Send',
  stop: 'Stop',
  stopping: 'Stopping…',
  toEnd: 'To the newest message',
  attach: 'Attach images or text files',
  attachLimit: (/** @type {string} */ size) => `Attach images or text files, up to ${size} each`,
  dropHere: 'Drop images or text files here',
  attachments: 'Attached files',
  attachment: (/** @type {string} */ name) => `Attached: ${name}`,
  /** Of a file that was made of a very long text. */
  pastedName: 'pasted.txt',
  filesPending: 'A file is still on its way',

  settings: 'Model and instructions',
  settingsInstructions: 'Instructions for this chat',

  you: 'You',
  assistant: 'Assistant',
  thinking: 'Thinking…',
  /** @param {number} seconds */
  silent: (seconds) => `No word from the model for ${TEXT.seconds(seconds)}. It may be thinking; you can go on waiting or stop it.`,
  queued: 'Waits for the answer before it',
  removeQueued: 'Remove',
  copy: 'Copy',
  copied: 'Copied',
  copyFailed: 'The browser does not let this page copy',
  copyCode: 'Copy code',
  code: 'Code',
  edit: 'Edit',
  regenerate: 'Answer again',
  goOn: 'Continue',
  /** What "Continue" sends. */
  goOnMessage: 'Please continue exactly where you stopped.',
  versions: 'Versions of this message',
  version: (/** @type {number} */ index, /** @type {number} */ count) => `${index} / ${count}`,
  earlier: 'Earlier version',
  later: 'Later version',
  usage: (/** @type {string} */ input, /** @type {string} */ output) => `${input} tokens read, ${output} written`,
  usageShort: (/** @type {string} */ output) => `${output} tokens`,
  source: 'Source',
  rendered: 'Rendered',
  sending: 'Sending…',
  sendingAgain: 'Not sent yet. Trying again…',
  notSent: 'Not sent',
  sendAgain: 'Send again',
  takeBack: 'Take back',
  /** An image elsewhere is never loaded by itself. */
  imageAt: (/** @type {string} */ host) => `Image at ${host}: opens in a new tab`,
  image: 'Image',
  taskDone: 'Done',
  taskOpen: 'To do',

  reconnecting: 'Reconnecting, nothing is lost',
  offline: 'You are offline. Nothing is lost',
  offlineAnswer: '; the answer goes on without you',
  unreachable: 'The server cannot be reached. Trying again',
  lost: 'The rest of this answer cannot be found',
  blocked: 'You may not read this chat',
  tryNow: 'Try now',

  reasoning: 'Thought',
  reasoningFor: (/** @type {string} */ time) => `Thought for ${time}`,
  reasoningRunning: 'Thinking',

  retry: 'Try again',
  /** @type {Record<string, string>} */
  outcomes: {
    FINISHED: 'Finished',
    LENGTH: 'The answer was cut at the model’s limit.',
    CANCELLED: 'Stopped.',
    REPLACED: 'Stopped for a newer message.',
    MODEL_UNREACHABLE: 'The model could not be reached.',
    MODEL_STALLED: 'The model stopped responding.',
    MODEL_EOF: 'The model’s answer was cut short.',
    MODEL_OVERLOADED: 'The model is overloaded.',
    MODEL_RATE_LIMITED: 'The model’s rate limit was reached.',
    MODEL_UNAUTHORIZED: 'The model refused our credentials.',
    MODEL_REQUEST_REFUSED: 'The model refused the request.',
    MODEL_NOT_FOUND: 'There is no such model.',
    MODEL_PROTOCOL: 'The model’s answer could not be read.',
    MODEL_ERROR: 'The model reported an error.',
    CONTEXT_TOO_LONG: 'This chat is too long for the model.',
    CONTENT_FILTERED: 'The answer was withheld by a content filter.',
    TOO_MANY_STEPS: 'The answer took too many steps.',
    STORE_FAILED: 'The server could not record the answer.',
    INTERNAL: 'Something went wrong in the server.',
    TURN_TIMEOUT: 'The answer took too long.',
    DETACHED_TIMEOUT: 'Nobody was reading for too long.',
    RECOVERY_EXHAUSTED: 'The server was interrupted too often.',
  },
  outcomeUnknown: 'The answer has ended.',

  /** For those who listen instead of looking. */
  announceFinished: 'The answer is complete.',
  announceEnded: (/** @type {string} */ sentence) => `The answer ended. ${sentence}`,
  announceRetrying: 'The model failed. Trying again.',
  announceRecovering: 'The server was interrupted. The answer goes on.',

  shortcuts: 'Keyboard shortcuts',

  /** Why a message could not be sent. @type {Record<string, string>} */
  refusals: {
    NETWORK: 'The server cannot be reached.',
    TIMEOUT: 'The server does not answer.',
    NOT_OURS: 'Something between you and the server answers in its place.',
    BODY_TOO_LARGE: 'The message is too long.',
    MESSAGE_CONFLICT: 'Its id was used for another message.',
    TURN_RUNNING: 'An answer is running.',
    SIGN_IN_REQUIRED: 'You are signed out.',
    MESSAGE_NOT_FOUND: 'The message it follows was deleted.',
    ATTACHMENT_INVALID: 'Only images (PNG, JPEG, GIF, WebP) and text files can be attached.',
    FILE_UNREADABLE: 'It cannot be read. Is it a folder, or was it changed?',
    ATTACHMENT_NOT_FOUND: 'An attached file is gone. Attach it again.',
    HTTP: 'The server did not accept it.',
    INTERNAL: 'Something went wrong.',
  },

  // Not by Intl, whose first use takes 30 ms, at the end of the first answer.
  /** @param {number} count */
  number: (count) => String(count).replace(/\B(?=(?:\d{3})+$)/g, ','),

  /** @param {number} bytes */
  size: (bytes) => (bytes < 1_000 ? `${bytes} B` : bytes < 1_000 * 1_024 ? `${Math.ceil(bytes / 1_024)} kB` : `${Number((bytes / 1_024 ** 2).toFixed(1))} MB`),

  /** @param {number} seconds */
  seconds: (seconds) => (seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`),

  /** @param {Status} status @param {number} now ms since 1970 */
  status({ state, text, attempt, limit, until }, now) {
    if (state !== 'retrying') return text;
    const left = until ? Math.max(0, Math.ceil((until - now) / 1_000)) : 0;
    const when = left > 0 ? `Retrying in ${TEXT.seconds(left)}` : 'Retrying now';
    const which = attempt && limit ? `, attempt ${attempt} of ${limit}` : '';
    return `${when}${which}${text ? `: ${text}` : ''}`;
  },

  /** @param {string|null} title @param {boolean} running */
  pageTitle: (title, running) => `${running ? '● ' : ''}${title || TEXT.newThread} · ${TEXT.product}`,
};
