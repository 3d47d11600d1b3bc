// The page. DOM.

import { h } from 'preact';
import { useEffect } from 'preact/hooks';

import { TEXT } from '../text.js';
import { Announcer } from './announcer.js';
import { DropZone } from './attaching.js';
import { Composer } from './composer.js';
import { ConnectionLine } from './connection.js';
import { Conversation } from './conversation.js';
import { useDrawer } from './drawer.js';
import { Icon, IconButton } from './icons.js';
import { useKeyboard } from './keyboard.js';
import { lazy } from './lazy.js';
import { ThreadList } from './thread_list.js';

/** @import {App} from '../app.js' */

const AwayLine = lazy((extras) => extras.AwayLine);
const SignIn = lazy((extras) => extras.SignIn);
const Dialogs = lazy((extras) => extras.Dialogs);

/** @param {{app: App}} props */
export function Page({ app }) {
  const { open, show, close, side, button } = useDrawer();
  useKeyboard(app, show);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') close();
  };
  return h('div', { class: `page ${open ? 'with-drawer' : ''}`, onKeyDown },
    h('aside', { class: 'side', id: 'side', ref: side },
      h('div', { class: 'brand' }, h('p', null, TEXT.product),
        app.notices.permission.value === 'default'
          ? h(IconButton, { icon: 'bell', label: TEXT.notify, testid: 'notify', onClick: app.notices.ask }) : null,
        h(IconButton, { icon: 'keyboard', label: TEXT.shortcuts, testid: 'shortcuts', onClick: () => { app.dialog.value = { name: 'shortcuts' }; } })),
      h(ThreadList, { app, close })),
    h('div', { class: 'shade', onClick: close }),
    h('main', { inert: open },
      h('header', null,
        h('button', { ref: button, type: 'button', class: 'quiet menu', 'aria-label': TEXT.showThreads, 'aria-expanded': open,
          'aria-controls': 'side', 'data-testid': 'menu', onClick: () => show(true) }, h(Icon, { name: 'menu' })),
        h(Title, { app })),
      h(Current, { app }),
      h('div', { class: 'foot' }, h(Away, { app }), h(ConnectionLine, { app }), h(Composer, { app }))),
    h(Announcer, { app }),
    h(DropZone, { app }),
    app.dialog.value ? h(Dialogs, { app }) : null,
    app.signedOut.value ? h(SignIn, { app }) : null);
}

/** @param {{app: App}} props */
function Current({ app }) {
  const thread = app.current.value;
  return h(Conversation, { key: thread.id, thread });
}

/** @param {{app: App}} props */
function Away({ app }) {
  return app.current.value.away.value && h(AwayLine, { app });
}

/** The title, here and in the window's frame. @param {{app: App}} props */
function Title({ app }) {
  const { id, info, live, phase } = app.current.value.view.value;
  const listed = app.threads.list.value.threads.find((thread) => thread.id === id); // renewed more often
  const title = listed?.title ?? info?.title ?? null;
  const running = live !== null;
  const unread = app.notices.unread.value.size;
  useEffect(() => {
    document.title = (unread ? `(${unread}) ` : '') + TEXT.pageTitle(title, running);
    document.querySelector('link[rel=icon]')?.setAttribute('href', unread ? 'static/icon-unread.svg' : 'static/icon.svg');
  }, [title, running, unread]);
  useEffect(() => {
    if (phase !== 'loading') document.documentElement.dataset.ready = 'true';
  }, [phase]);
  return h('h1', { dir: 'auto', 'data-testid': 'title' }, title || (phase === 'new' ? TEXT.newThread : '\u00a0'));
}
