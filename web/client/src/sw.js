// The service worker: keeps the page and the threads that were loaded, for when there is no network.
// Effects. With a network nothing is taken from the cache but files whose names hold their content's
// hash, so a new version of the server is a new page at once.

const CACHE = 'unbroken-1';

/** Threads and files kept; the oldest go first. */
const KEPT = 300;

/** Its types exclude those of pages, which the rest of this folder needs. @type {any} */
const worker = self;

worker.addEventListener('install', () => { void worker.skipWaiting(); });
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const answer = respond(event.request);
  if (answer) event.respondWith(answer);
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
  if (request.mode === 'navigate' && !search && (path === '' || path.startsWith('t/'))) return networkFirst(request, scope.href);
  if (!search && /^api\/(?:threads(?:\/[\w-]+)?|models)$/.test(path)) return networkFirst(request, request.url);
  return null;
}

/** @param {Request} request */
async function cacheFirst(request) {
  const cache = await caches.open(CACHE);
  const known = await cache.match(request.url);
  if (known) return known;
  const response = await fetch(request);
  if (response.ok) await keep(cache, request.url, response.clone());
  return response;
}

/** @param {Request} request @param {string} key */
async function networkFirst(request, key) {
  const cache = await caches.open(CACHE);
  let response;
  try {
    response = await fetch(request);
  } catch (error) {
    const known = await cache.match(key);
    if (known) return known;
    throw error;
  }
  if (response.status === 200) await keep(cache, key, response.clone());
  // Signed out, or deleted: what was kept is not for whoever asks now.
  else if (response.status === 401) await caches.delete(CACHE);
  else if (response.status === 404) await cache.delete(key);
  return response;
}

/** @param {Cache} cache @param {string} key @param {Response} response */
async function keep(cache, key, response) {
  await cache.delete(key); // a new one is the youngest
  await cache.put(key, response);
  const keys = await cache.keys();
  await Promise.all(keys.slice(0, Math.max(0, keys.length - KEPT)).map((old) => cache.delete(old)));
}
