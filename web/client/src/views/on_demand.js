// Parts of the page that are loaded when they are first needed, however often that fails. DOM.

/** A load that failed is tried again after so long, and then after twice as long each time. */
const AGAIN_MS = 3_000;
const MOST_MS = 60_000;

/**
 * A style that is imported by a script which is loaded later is asked for once: fails that, as while the
 * server restarts, the bundler's loader takes it for loaded. So it is named here.
 * @template T
 * @param {() => Promise<T>} script
 * @param {string} [style] its address
 * @returns {() => Promise<T>} the same promise for all, of both; it is never rejected
 */
export function onDemand(script, style) {
  /** @type {Promise<T>|undefined} */
  let loading;
  return () => {
    loading ??= Promise.all([untilLoaded(script), style && untilLoaded(() => addStyle(style))]).then(([loaded]) => loaded);
    return loading;
  };
}

/** @template T @param {() => Promise<T>} load @returns {Promise<T>} */
async function untilLoaded(load) {
  for (let wait = AGAIN_MS; ; wait = Math.min(2 * wait, MOST_MS)) {
    try {
      return await load();
    } catch {
      // The network, or a server that is being restarted.
      await new Promise((resolve) => { setTimeout(resolve, wait); });
    }
  }
}

/** @param {string} address */
function addStyle(address) {
  return new Promise((resolve, reject) => {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = address;
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      reject(new Error(address));
    };
    document.head.append(link);
  });
}
