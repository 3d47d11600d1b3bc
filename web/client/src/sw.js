// The service worker: keeps the page and the threads that were loaded, for when there is no network.
// Effects. With a network nothing is taken from the cache but files whose names hold their content's
// hash, so a new version of the server is a new page at once.

const CACHE = 'unbroken-1';

/** Threads and files kept; the oldest go first. */
const KEPT = 300;

/** A network that lets nothing through says so late; until then a page that is known need not be blank. */
const PATIENCE_MS = 5_000;

/** Its types exclude those of pages, which the rest of this folder needs. @type {any} */
const worker = self;

worker.addEventListener('install', () => { void worker.skipWaiting(); });
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const answer = respond(event.request);
  if (answer) event.respondWith(answer);
});

/** To the thread of a note, in a window that is there. */
worker.addEventListener('notificationclick', (/** @type {any} */ event) => {
  const { notification } = event;
  notification.close();
  event.waitUntil(worker.clients.matchAll({ type: 'window', includeUncontrolled: true }).then((/** @type {any[]} */ [first]) => (
    first ? first.focus().then((/** @type {any} */ window) => window.navigate(notification.data)) : worker.clients.openWindow(notification.data))));
});

/** @param {Request} request @returns {Promise<Response>|null} null: not ours to answer */
function respond(request) {
  const { pathname, search, origin } = new URL(request.url);
  const scope = new URL(worker.registration.scope);
  if (request.method !== 'GET' || origin !== scope.origin || !pathname.startsWith(scope.pathname)) return null;
  const path = pathname.slice(scope.pathname.length);
  if (path.startsWith('static/assets/')) return cacheFirst(request);
  if (path.startsWith('static/')) return networkFirst(request, request.url);
  // All pages are one.
  if (request.mode === 'navigate' && !search && (path === '' || path.startsWith('t/'))) return networkFirst(request, scope.href, PATIENCE_MS);
  if (!search && /^api\/(?:threads(?:\/[\w-]+)?|models)$/.test(path)) return networkFirst(request, request.url);
  return null;
}

/** @param {Request} request */
async function cacheFirst(request) {
  const known = await match(request.url);
  if (known) return known;
  const response = await fetch(request);
  if (response.ok) await keep(request.url, response.clone());
  return response;
}

/** @param {Request} request @param {string} key @param {number} [patienceMs] left out: as long as it takes */
async function networkFirst(request, key, patienceMs) {
  const answer = ask(request, key);
  const late = new Promise((resolve) => { if (patienceMs) setTimeout(resolve, patienceMs); });
  const response = await Promise.race([answer, late]).catch(() => null);
  return response ?? (await match(key)) ?? answer; // which tells what is wrong, if something is
}

/** @param {Request} request @param {string} key */
async function ask(request, key) {
  const response = await fetch(request);
  if (response.status === 200) await keep(key, response.clone());
  // Signed out, or deleted: what was kept is not for whoever asks now.
  else if (response.status === 401) await drop();
  else if (response.status === 404) await drop(key);
  return response;
}

// Where nothing can be kept, in a private window or on a full disk, the page works as without a worker.

/** @param {string} key @returns {Promise<Response|undefined>} */
async function match(key) {
  try {
    return await (await caches.open(CACHE)).match(key);
  } catch {
    return undefined;
  }
}

/** @param {string} key @param {Response} response */
async function keep(key, response) {
  try {
    const cache = await caches.open(CACHE);
    await cache.delete(key); // a new one is the youngest
    await cache.put(key, response);
    const keys = await cache.keys();
    await Promise.all(keys.slice(0, Math.max(0, keys.length - KEPT)).map((old) => cache.delete(old)));
  } catch {
    await drop(key); // an older one would be a lie
  }
}

/** @param {string} [key] left out: everything */
async function drop(key) {
  try {
    if (key) await (await caches.open(CACHE)).delete(key);
    else await caches.delete(CACHE);
  } catch {
    // There is none.
  }
}
