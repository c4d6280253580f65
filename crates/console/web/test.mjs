// Runs the unit tests: bundles them, as Node 20 does not read TypeScript, and gives them to Node's test runner.

import { spawnSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { build } from 'esbuild';

const tests = (await readdir('test')).filter((name) => name.endsWith('.test.ts'));
await build({
  entryPoints: tests.map((name) => `test/${name}`),
  outdir: 'build/test',
  outExtension: { '.js': '.mjs' },
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  sourcemap: 'inline',
  logLevel: 'warning',
});
const files = tests.map((name) => `build/test/${name.replace(/\.ts$/, '.mjs')}`);
const run = spawnSync(process.execPath, ['--enable-source-maps', '--test', '--test-reporter=dot', ...files], {
  stdio: 'inherit',
});
process.exit(run.status ?? 1);
