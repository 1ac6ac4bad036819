#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { createProgram } from './program.js';
import { tellError } from './tell-error.js';

async function main(): Promise<void> {
  // A closed pipe is no error: its reader has seen enough.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    throw error;
  });
  const program = createProgram(readVersion());
  let called = program;
  program.hook('preAction', (_, command) => void (called = command));
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = tellError(called, error as Error);
  }
}

/** Of the package that is installed. */
function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return version;
}

await main();
