// Every word the page says by itself.

/** @import {Status} from './types.js' */

export const TEXT = {
  product: 'Unbroken',
  newThread: 'New chat',
  threads: 'Chats',
  noThreads: 'No chats yet',
  untitled: 'New chat',
  threadMenu: (/** @type {string} */ title) => `Options of “${title}”`,
  rename: 'Rename',
  newTitle: 'New title',
  pin: 'Pin',
  unpin: 'Unpin',
  pinned: 'Pinned',
  exportMarkdown: 'Export as Markdown',
  exportJson: 'Export as JSON',
  remove: 'Delete',
  removeTitle: 'Delete this chat?',
  removeNote: (/** @type {string} */ title) => `“${title}” and everything in it is deleted, on all your devices. This cannot be undone.`,
  cancel: 'Cancel',
  close: 'Close',
  save: 'Save',

  search: 'Search',
  searchHint: 'Search all chats',
  searching: 'Searching…',
  searchFailed: 'The search got no answer. The server may be out of reach.',
  searchNothing: 'Nothing found',
  searchClear: 'Clear the search',
  found: (/** @type {number} */ count) => (count === 1 ? '1 message found' : `${count} messages found`),
  foundIn: { user: 'You', assistant: 'Answer' },

  awayGoesOn: (/** @type {string} */ from, /** @type {string} */ to) =>
    `You were away from ${from} to ${to}. The answer went on; nothing is missing.`,
  awayEnded: (/** @type {string} */ from, /** @type {string} */ to, /** @type {string} */ how, /** @type {string} */ at) =>
    `You were away from ${from} to ${to}. The answer ${how} at ${at}; nothing is missing.`,
  awayHow: { finished: 'was finished', failed: 'failed', cancelled: 'was stopped', aborted: 'was stopped', interrupted: 'was given up' },
  restarted: 'The server was restarted. What it had not finished is written again; nothing is lost.',
  dismiss: 'Dismiss',
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
  removeFile: (/** @type {string} */ name) => `Remove ${name}`,
  uploading: (/** @type {number} */ percent) => `${percent} %`,
  fileTooLarge: (/** @type {string} */ size) => `Larger than ${size}`,
  filesPending: 'A file is still on its way',

  settings: 'Model and instructions',
  settingsModel: 'Model',
  settingsDefault: (/** @type {string} */ name) => `Default (${name})`,
  settingsInstructions: 'Instructions for this chat',
  settingsInstructionsHint: 'How should the answers be? For example: short, in French, for a beginner.',
  settingsNote: 'Holds for the next answers of this chat.',
  demoModel: 'demonstration',

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
  editMessage: 'Edit your message',
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
  offline: 'You are offline. Nothing is lost; the answer goes on without you',
  unreachable: 'The server cannot be reached. Trying again',
  lost: 'The rest of this answer cannot be found',
  blocked: 'You may not read this chat',
  tryNow: 'Try now',

  signIn: 'Sign in',
  signInNote: 'Paste the link that the server printed when it started, or the token in it. What was running goes on, nothing is lost.',
  signInLabel: 'Link or token',
  signInWrong: 'That is not the token of this server.',

  reasoning: 'Thought',
  reasoningFor: (/** @type {string} */ time) => `Thought for ${time}`,
  reasoningRunning: 'Thinking',
  toolInput: 'Input',
  toolOutput: 'Result',
  toolError: 'Error',
  showAll: (/** @type {string} */ size) => `Show all (${size})`,
  toolUnknown: 'It may have happened: the result was never recorded, and it is not done again.',
  /** @type {Record<string, string>} */
  toolStates: {
    'input-streaming': 'being prepared',
    'input-available': 'prepared',
    'input-error': 'its input was not valid',
    running: 'running',
    'output-available': 'done',
    'output-error': 'failed',
    unknown: 'outcome unknown',
    // The turn ended while the call was there.
    abandoned: 'not run',
    interrupted: 'interrupted',
  },

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
  shortcutsSingle: 'Single keys work while nothing is being written',
  /** @type {[keys: string, what: string][]} keys are named as TEXT.keys has them */
  shortcutList: [
    ['Enter', 'Send the message'],
    ['Shift Enter', 'Begin a new line'],
    ['Mod Enter', 'Send now and stop the running answer'],
    ['Up', 'Edit the last message, from an empty box'],
    ['Mod .', 'Stop the answer'],
    ['Mod K', 'Search all chats'],
    ['Mod Shift O', 'New chat'],
    ['Mod Shift C', 'Copy the last answer'],
    ['Alt Up', 'To the message before'],
    ['Alt Down', 'To the message after'],
    ['/', 'Write a message'],
    ['?', 'Show this list'],
    ['Escape', 'Close what is open'],
  ],
  /** @type {Record<string, string>} */
  keys: { Mod: 'Ctrl', ModMac: '⌘', Shift: 'Shift', Alt: 'Alt', AltMac: '⌥', Up: '↑', Down: '↓', Enter: 'Enter', Escape: 'Esc' },

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
    ATTACHMENT_NOT_FOUND: 'An attached file is gone. Attach it again.',
    HTTP: 'The server did not accept it.',
    INTERNAL: 'Something went wrong.',
  },

  /** @param {number} count */
  number: (count) => count.toLocaleString(),

  /** @param {number} bytes */
  size: (bytes) => (bytes < 1_000 ? `${bytes} B` : bytes < 1_000 * 1_024 ? `${Math.ceil(bytes / 1_024)} kB` : `${Number((bytes / 1_024 ** 2).toFixed(1))} MB`),

  /** @param {number} at ms since 1970 */
  date: (at) => new Date(at).toLocaleDateString(undefined, { dateStyle: 'medium' }),

  /** @param {number} seconds */
  seconds: (seconds) => (seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`),

  /** @param {number} seconds */
  tenths: (seconds) => (seconds < 10 ? `${seconds.toFixed(1)} s` : TEXT.seconds(Math.round(seconds))),

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
