// Asks who it is. DOM.

import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { TEXT } from '../text.js';
import { MORE } from '../text_extras.js';

/** @import {App} from '../app.js' */

/** @param {{app: App}} props */
export function SignIn({ app }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const [token, setToken] = useState('');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const show = () => dialog.current?.showModal(); // whatever closes it: there is nothing else to be done
  useEffect(show, []);

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await app.signIn(token);
    } catch (failure) {
      const { code = '', status = 0 } = /** @type {Partial<import('../api.js').ApiError>} */ (failure);
      setError(status === 401 ? MORE.signInWrong : TEXT.refusals[code] ?? TEXT.refusals.HTTP);
      setBusy(false);
    }
  };
  return h('dialog', { ref: dialog, class: 'sign-in', 'aria-labelledby': 'sign-in', 'data-testid': 'sign-in', onClose: show },
    h('form', { onSubmit: submit },
      h('h2', { id: 'sign-in' }, MORE.signIn),
      h('p', null, MORE.signInNote),
      h('label', null, MORE.signInLabel,
        h('input', { type: 'password', value: token, required: true, autocomplete: 'current-password', 'data-testid': 'token',
          onInput: (/** @type {{currentTarget: HTMLInputElement}} */ event) => setToken(event.currentTarget.value) })),
      error ? h('p', { class: 'bad', role: 'alert' }, error) : null,
      h('button', { type: 'submit', class: 'primary', disabled: busy || !token.trim(), 'data-testid': 'sign-in-submit' }, MORE.signIn)));
}
