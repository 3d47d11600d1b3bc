import { defineConfig } from 'vitest/config';

// The page itself is a template of the server; only scripts and styles are built here. Asset addresses
// are relative (`base: './'`), so the build works under any path prefix.
export default defineConfig({
  base: './',
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
    include: ['tests/**/*.test.js'],
  },
});
