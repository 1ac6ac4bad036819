/** `serve`: the jobs over HTTP, until SIGTERM or Ctrl-C. */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { AgentJobs } from '../starter.js';
import { connect, type GlobalOptions, print, printToStderr, versionOf } from './session.js';

const HELP = `
HTTP_ADDRESS says where it listens (default: 127.0.0.1:8080). HTTP_KEYS_FILE names a JSON object of the SHA-256 of a
key, in hex, to {"name": …, "projects": [projectId, …]}, or "*" for all projects. Without it nobody needs a key, and it
listens on this machine alone. Whoever listens beyond it puts TLS before it. /openapi.json has all calls.`;

const RETRY_MS = 1_000;

/** Adds `serve`. */
export function addServe(program: Command): void {
  const command = program
    .command('serve')
    .description('serve the jobs over HTTP, until SIGTERM')
    .addHelpText('after', HELP)
    .action(() => serve(command));
}

async function serve(command: Command): Promise<void> {
  const { readHttpConfig, readMcpConfig } = await import('../config.js');
  const { CallerKeys } = await import('../http/keys.js');
  const { HttpServer } = await import('../http/server.js');
  const { address, keysFile } = readHttpConfig();
  const { maxWaitMs: maxToolWaitMs } = readMcpConfig();
  const onProblem = (problem: string) => printToStderr(`agent-jobs: ${problem}`);
  const keys = keysFile === undefined ? null : new CallerKeys(keysFile, onProblem);
  await keys?.read();
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort()).once('SIGINT', () => stop.abort());
  const { signal } = stop;
  const jobs = await reach(command.optsWithGlobals<GlobalOptions>(), signal);
  if (jobs === null) return;
  const service = { jobs, keys, version: versionOf(command), maxToolWaitMs, onProblem };
  try {
    const http = await HttpServer.listen(service, address);
    print(`HTTP  ${http.url}, ${keys === null ? 'for this machine alone: HTTP_KEYS_FILE is not set' : 'with keys'}`);
    if (!signal.aborted) await once(signal, 'abort');
    await http.end();
  } finally {
    await jobs.close();
  }
}

/** As a worker does, it waits for a server that is about to start, and says so; null where it is ended before. */
async function reach(globals: GlobalOptions, signal: AbortSignal): Promise<AgentJobs | null> {
  const { TemporalUnavailableError } = await import('../client/errors.js');
  for (let isTold = false; !signal.aborted; isTold = true) {
    try {
      return await connect(globals, null, { signal });
    } catch (error) {
      if (signal.aborted) break;
      if (!(error instanceof TemporalUnavailableError)) throw error;
      if (!isTold) printToStderr(`agent-jobs: ${error.message}; trying again until it is there`);
      await delay(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  }
  return null;
}
