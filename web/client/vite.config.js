import { defineConfig } from 'vitest/config';

/** Every browser that runs this page reads woff2; the other files of KaTeX's fonts are twice as much again. */
const onlyWoff2 = {
  name: 'only-woff2',
  enforce: /** @type {const} */ ('pre'),
  /** @param {string} code @param {string} id */
  transform: (code, id) => (/katex.*\.css\b/.test(id) ? { map: null, code: code.replace(/,url\([^)]*\.(?:woff|ttf)\) format\("(?:woff|truetype)"\)/g, '') } : null),
};

/** The page draws marked's tokens itself: of marked it needs the lexer, and no bundler sees that the rest is not used. */
const onlyLexer = {
  name: 'only-lexer',
  /** @param {string} code @param {string} id */
  transform(code, id) {
    if (!id.endsWith('/marked/lib/marked.esm.js')) return null;
    const parts = /^([\s\S]*;)var \w+=new \w+;function \w+\([\s\S]*export\{(?:.*,)?(\w+) as Lexer,/.exec(code);
    if (!parts) throw new Error('marked is built in another way than before: see onlyLexer in vite.config.js');
    return { code: `${parts[1]}export{${parts[2]} as Lexer};`, map: null };
  },
};

/** Styles that are imported for their address have, in manifest and source maps, the path of the machine that builds. */
const noPathOfOurs = {
  name: 'no-path-of-ours',
  generateBundle: {
    order: /** @type {const} */ ('post'),
    /** @param {unknown} _options @param {Record<string, any>} bundle */
    handler(_options, bundle) {
      for (const file of Object.values(bundle).filter(({ fileName }) => /\.(?:json|map)$/.test(fileName))) {
        file.source = String(file.source).replaceAll(`${import.meta.dirname}/`, '');
      }
    },
  },
};

/** What is loaded on demand brings no styles (views/on_demand.js) and is one file: there is nothing to preload. */
const noPreloads = {
  name: 'no-preloads',
  enforce: /** @type {const} */ ('pre'),
  /** @param {string} id */
  load: (id) => (id === '\0vite/preload-helper.js' ? 'export const __vitePreload = (load) => load();' : null),
};

// The page itself is a template of the server; only scripts and styles are built here. Asset addresses
// are relative (`base: './'`), so the build works under any path prefix.
export default defineConfig({
  base: './',
  plugins: [onlyWoff2, onlyLexer, noPathOfOurs, noPreloads],
  build: {
    outDir: '../static',
    emptyOutDir: true,
    manifest: true,
    sourcemap: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: ['src/main.js', 'src/sw.js'],
      // A service worker is renewed by its content; its address has to stay.
      output: { entryFileNames: ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js') },
    },
  },
  test: {
    environment: 'happy-dom',
    testTimeout: 20_000, // of a machine that has other things to do
    include: ['tests/**/*.test.js'],
  },
});
