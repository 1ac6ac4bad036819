/** `serve`: the jobs over HTTP, until SIGTERM or Ctrl-C. */
import { once } from 'node:events';
import type { Command } from 'commander';
import { connect, type GlobalOptions, print, printToStderr, versionOf } from './session.js';

const HELP = `
HTTP_ADDRESS says where it listens (default: 127.0.0.1:8080). HTTP_KEYS_FILE names a JSON object of the SHA-256 of a
key, in hex, to {"name": …, "projects": [projectId, …]}, or "*" for all projects. Without it nobody needs a key, and it
listens on this machine alone. Whoever listens beyond it puts TLS before it. /openapi.json has all calls.`;

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
  // As a worker does, it waits for a server that is about to start.
  const jobs = await connect(command.optsWithGlobals<GlobalOptions>(), null, { timeoutMs: Infinity, signal });
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
