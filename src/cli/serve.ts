/** `serve` and `mcp`: the jobs over HTTP, and as tools for an agent on standard input and output, until it is ended. */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { AgentJobs } from '../starter.js';
import { connect, type GlobalOptions, print, printToStderr, versionOf } from './session.js';

const SERVE_HELP = `
HTTP_ADDRESS says where it listens (default: 127.0.0.1:8080). HTTP_KEYS_FILE names a JSON object of the SHA-256 of a
key, in hex, to {"name": …, "projects": [projectId, …]}, or "*" for all projects. Without it nobody needs a key, and it
listens on this machine alone. Whoever listens beyond it puts TLS before it. /openapi.json has all calls.`;

const RETRY_MS = 1_000;

/** Adds `serve`. */
export function addServe(program: Command): void {
  const command = program
    .command('serve')
    .description('serve the jobs over HTTP, until SIGTERM')
    .addHelpText('after', SERVE_HELP)
    .action(() => serve(command));
}

async function serve(command: Command): Promise<void> {
  const { cannotListen, readHttpConfig, readMcpConfig } = await import('../config.js');
  const { CallerKeys } = await import('../http/keys.js');
  const { TemporalUnavailableError } = await import('../client/errors.js');
  const { HttpServer } = await import('../http/server.js');
  const { address, keysFile, keepAliveMs, healthAddress } = readHttpConfig();
  const { maxWaitMs: maxToolWaitMs } = readMcpConfig();
  const keys = keysFile === undefined ? null : new CallerKeys(keysFile, onProblem);
  await keys?.read();
  const globals = command.optsWithGlobals<GlobalOptions>();
  const { signal } = endBySignal();
  let reached = await reach(globals, signal, (why) => onProblem(`${why}; trying again until it is there`));
  const service = {
    ...{ keys, version: versionOf(command), maxToolWaitMs, keepAliveMs, onProblem },
    get jobs(): AgentJobs {
      if (reached === null) throw new TemporalUnavailableError('Temporal was not reached yet');
      return reached;
    },
  };
  const named = <T>(setting: string, listening: Promise<T>): Promise<T> =>
    listening.catch((error: unknown): never => {
      throw cannotListen(setting, error);
    });
  try {
    const http = await named('HTTP_ADDRESS', HttpServer.listen(service, address));
    try {
      if (healthAddress) await named('HEALTH_ADDRESS', http.listenForProbes(healthAddress));
      print(`HTTP  ${http.url}, ${keys === null ? 'for this machine alone: HTTP_KEYS_FILE is not set' : 'with keys'}`);
      while (reached === null && !signal.aborted) {
        await delay(RETRY_MS, undefined, { signal }).catch(() => {});
        reached = await reach(globals, signal);
      }
      if (!signal.aborted) await once(signal, 'abort');
    } finally {
      await http.end();
    }
  } finally {
    await reached?.close();
  }
}

/** Aborted by SIGTERM and Ctrl-C. */
function endBySignal(): AbortController {
  const end = new AbortController();
  process.once('SIGTERM', () => end.abort()).once('SIGINT', () => end.abort());
  return end;
}

function onProblem(problem: string): void {
  printToStderr(`agent-jobs: ${problem}`);
}

/** Null where Temporal is away, as one that is about to start, and where it is ended before. */
async function reach(
  globals: GlobalOptions,
  signal: AbortSignal,
  onAway: (why: string) => void = () => {},
): Promise<AgentJobs | null> {
  const { TemporalUnavailableError } = await import('../client/errors.js');
  try {
    return await connect(globals, { signal });
  } catch (error) {
    if (signal.aborted) return null;
    if (!(error instanceof TemporalUnavailableError)) throw error;
    onAway(error.message);
    return null;
  }
}

const MCP_HELP = `
It has the rights of whoever starts it: all projects. "agent-jobs serve" has the same tools at /mcp, for callers with
keys. MCP_MAX_WAIT says how long a tool may wait (default: 50 seconds, since clients cut off calls at 60).`;

/** Adds `mcp`. */
export function addMcp(program: Command): void {
  const command = program
    .command('mcp')
    .description('serve the jobs as tools of the Model Context Protocol, on standard input and output')
    .addHelpText('after', MCP_HELP)
    .action(() => serveTools(command));
}

async function serveTools(command: Command): Promise<void> {
  const { readClientConfig, readMcpConfig } = await import('../config.js');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const { mcpServer } = await import('../http/mcp/server.js');
  const { ANYBODY: caller } = await import('../http/keys.js');
  const { maxWaitMs } = readMcpConfig();
  const globals = command.optsWithGlobals<GlobalOptions>();
  readClientConfig(undefined, globals.address); // What is wrong there is told at once, not by the first tool.
  const end = endBySignal();
  const { signal: ending } = end;
  process.stdin.once('end', () => end.abort());
  const temporal = connector(globals, ending);
  const service = { connect: temporal.connect, caller, maxWaitMs, ending, version: versionOf(command), onProblem };
  const stdio = serveStdio(() => mcpServer(service), { onerror: (error) => onProblem(error.message) });
  if (!ending.aborted) await once(ending, 'abort');
  await stdio.close();
  await temporal.close();
}

/** Connects when it is first needed, and again where Temporal was away: the agent is told of it by a tool. */
function connector(globals: GlobalOptions, signal: AbortSignal) {
  let jobs: Promise<AgentJobs> | undefined;
  const retry = (error: unknown) => {
    jobs = undefined;
    throw error;
  };
  return {
    connect: () => (jobs ??= connect(globals, { signal }).catch(retry)),
    close: async () => (await jobs?.catch(() => undefined))?.close(),
  };
}
