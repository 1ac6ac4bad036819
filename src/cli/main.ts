#!/usr/bin/env node
/** The program `agent-jobs`. */
import { readFileSync } from 'node:fs';
import { EXITS } from './exit.js';
import { createProgram, runProgram } from './program.js';

// The reader of a pipe has seen enough: the command ends without a word, and without success.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXITS.error[0]);
  throw error;
});
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
await runProgram(createProgram(version));
// What a command gave up may go on for long, as a read of a disk that does not answer.
process.stdout.write('', () => process.exit());
