// Builds the pages into dist/, from where build.rs of the crate embeds them.

import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

await build({
  entryPoints: ['src/app.tsx', 'src/login.ts', 'src/app.css'],
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2022', 'chrome116', 'firefox124', 'safari17.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  define: { 'process.env.NODE_ENV': '"production"' },
  legalComments: 'none',
  logLevel: 'warning',
});
// The editor is loaded when it is needed, as a module.
await build({
  entryPoints: ['src/editor.ts'],
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['es2022', 'chrome116', 'firefox124', 'safari17.4'],
  legalComments: 'none',
  logLevel: 'warning',
});
await copyFile('src/index.html', 'dist/index.html');
await copyFile('src/favicon.svg', 'dist/favicon.svg');
const licenses = [];
const bundled = [
  ...['preact', '@preact/signals', '@preact/signals-core'],
  ...['autocomplete', 'commands', 'lang-yaml', 'language', 'state', 'view'].map((name) => `@codemirror/${name}`),
  ...['common', 'highlight', 'lr', 'yaml'].map((name) => `@lezer/${name}`),
  ...['@marijn/find-cluster-break', 'crelt', 'style-mod', 'w3c-keyname'],
];
for (const name of bundled) {
  licenses.push(`${name}\n\n${await readFile(`node_modules/${name}/LICENSE`, 'utf8')}`);
}
await writeFile('dist/licenses.txt', licenses.join('\n\n'));
