// Every word of what is loaded later: views/extras.js.

import { TEXT } from './text.js';

export const MORE = {
  rename: 'Rename',
  newTitle: 'New title',
  pin: 'Pin',
  unpin: 'Unpin',
  exportMarkdown: 'Export as Markdown',
  exportJson: 'Export as JSON',
  remove: 'Delete',
  removeTitle: 'Delete this chat?',
  removeNote: (/** @type {string} */ title) => `“${title}” and everything in it is deleted, on all your devices. This cannot be undone.`,
  cancel: 'Cancel',
  awayGoesOn: (/** @type {string} */ from, /** @type {string} */ to) =>
    `You were away from ${from} to ${to}. The answer went on; nothing is missing.`,
  awayEnded: (/** @type {string} */ from, /** @type {string} */ to, /** @type {string} */ how, /** @type {string} */ at) =>
    `You were away from ${from} to ${to}. The answer ${how} at ${at}; nothing is missing.`,
  awayHow: { finished: 'was finished', failed: 'failed', cancelled: 'was stopped', aborted: 'was stopped', interrupted: 'was given up' },
  restarted: 'The server was restarted. What it had not finished is written again; nothing is lost.',
  dismiss: 'Dismiss',
  close: 'Close',
  searching: 'Searching…',
  searchFailed: 'The search got no answer. The server may be out of reach.',
  searchNothing: 'Nothing found',
  found: (/** @type {number} */ count) => (count === 1 ? '1 message found' : `${count} messages found`),
  foundIn: { user: 'You', assistant: 'Answer' },
  removeFile: (/** @type {string} */ name) => `Remove ${name}`,
  uploading: (/** @type {number} */ percent) => `${percent} %`,
  fileTooLarge: (/** @type {string} */ size) => `Larger than ${size}`,
  settingsModel: 'Model',
  settingsDefault: (/** @type {string} */ name) => `Default (${name})`,
  settingsInstructionsHint: 'How should the answers be? For example: short, in French, for a beginner.',
  settingsNote: 'Holds for the next answers of this chat.',
  demoModel: 'demonstration',
  editMessage: 'Edit your message',
  signIn: 'Sign in',
  signInNote: 'Paste the link that the server printed when it started, or the token in it. What was running goes on, nothing is lost.',
  signInLabel: 'Link or token',
  signInWrong: 'That is not the token of this server.',
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
  shortcutsSingle: 'Single keys work while nothing is being written',
  /** @type {[keys: string, what: string][]} keys are named as MORE.keys has them */
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
  /** @param {number} at ms since 1970 */
  date: (at) => new Date(at).toLocaleDateString(undefined, { dateStyle: 'medium' }),
  /** @param {number} seconds */
  tenths: (seconds) => (seconds < 10 ? `${seconds.toFixed(1)} s` : TEXT.seconds(Math.round(seconds))),
};
