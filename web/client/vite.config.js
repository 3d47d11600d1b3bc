import { defineConfig } from 'vitest/config';

/** Every browser that runs this page reads woff2; the other files of KaTeX's fonts are twice as much again. */
const onlyWoff2 = {
  name: 'only-woff2',
  enforce: /** @type {const} */ ('pre'),
  /** @param {string} code @param {string} id */
  transform: (code, id) => (id.includes('katex') && id.endsWith('.css') ? code.replace(/,url\([^)]*\.(?:woff|ttf)\) format\("(?:woff|truetype)"\)/g, '') : null),
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

// The page itself is a template of the server; only scripts and styles are built here. Asset addresses
// are relative (`base: './'`), so the build works under any path prefix.
export default defineConfig({
  base: './',
  plugins: [onlyWoff2, onlyLexer],
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
