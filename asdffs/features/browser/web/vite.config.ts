import react from '@vitejs/plugin-react';
import { fileURLToPath } from 'node:url';
import license, { type Dependency } from 'rollup-plugin-license';
import { defineConfig } from 'vite';

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const target = process.env.ASDFFS_PAGE ?? here('dist');

const licences = (packages: Dependency[]): string =>
  packages.map((one) => `${one.name} ${one.version} (${one.license})\n\n${one.licenseText ?? ''}`).join(`\n${'-'.repeat(78)}\n`);

// The names of the files have no hash, so that a new bundle is a change of the same files.
export default defineConfig({
  plugins: [react()],
  base: './',
  html: { cspNonce: '{{nonce}}' },
  build: {
    outDir: target,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 3000,
    rollupOptions: {
      plugins: [license({ thirdParty: { output: { file: `${target}/LICENSES.txt`, template: licences } } })],
      output: { entryFileNames: 'page.js', chunkFileNames: '[name].js', assetFileNames: '[name][extname]' },
    },
  },
  resolve: {
    // these two make functions of texts, which the page's policy forbids
    alias: [
      { find: /^ndarray-ops$/, replacement: here('src/ndarray_ops.ts') },
      { find: /^ndarray$/, replacement: here('src/ndarray.ts') },
    ],
  },
});
