// Registers the service worker, where the browser has them for this address. Effects.

/** @param {Window & typeof globalThis} window */
export function workOffline(window) {
  const { document, navigator, trustedTypes } = /** @type {any} */ (window);
  if (!navigator.serviceWorker || !window.isSecureContext) return;
  const url = new URL('sw.js', document.baseURI).href;
  // The one address of a script that is made here; the policy of the page asks for a reason (CSP, require-trusted-types-for).
  const policy = trustedTypes?.createPolicy('unbroken-worker', { createScriptURL: () => url });
  navigator.serviceWorker.register(policy?.createScriptURL('') ?? url).catch(() => undefined); // private windows refuse
}
