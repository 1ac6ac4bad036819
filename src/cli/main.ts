#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { createProgram, runProgram } from './program.js';

async function main(): Promise<void> {
  // A closed pipe is no error: its reader has seen enough.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    throw error;
  });
  await runProgram(createProgram(readVersion()));
}

/** Of the package that is installed. */
function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return version;
}

await main();
