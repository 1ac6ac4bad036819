/** `serve` and `mcp`: the jobs over HTTP, and as tools for an agent on standard input and output, until it is ended. */
import { once } from 'node:events';
import type { Command } from 'commander';
import type { AgentJobs } from '../starter.js';
import { connect, type GlobalOptions, print, printToStderr, versionOf } from './session.js';

const SERVE_HELP = `
HTTP_ADDRESS says where it listens (default: 127.0.0.1:8080). HTTP_KEYS_FILE names a JSON object of the SHA-256 of a
key, in hex, to {"name": …, "projects": [projectId, …]}, or "*" for all projects. Without it no caller needs a key, and
it listens on this machine alone. To listen beyond it, put TLS before it. / is a page for people, and /openapi.json has
all calls.`;

/** Adds `serve`. */
export function addServe(program: Command): void {
  const command = program
    .command('serve')
    .description('serve the jobs over HTTP, until SIGTERM')
    .addHelpText('after', SERVE_HELP)
    .action(() => withService(command, serveHttp));
}

const MCP_HELP = `
It has the rights of the user that starts it: all projects. "agent-jobs serve" has the same tools at /mcp, for callers
with keys. MCP_MAX_WAIT says how long a tool may wait (default: 50 seconds, since clients cut off calls at 60).`;

/** Adds `mcp`. */
export function addMcp(program: Command): void {
  const command = program
    .command('mcp')
    .description('serve the jobs as tools of the Model Context Protocol, on standard input and output')
    .addHelpText('after', MCP_HELP)
    .action(() => withService(command, serveTools));
}

interface Service {
  /** Connects at the first call, and again after a call that failed because Temporal was away. */
  connect: () => Promise<AgentJobs>;
  version: string;
  maxToolWaitMs: number | undefined;
  onProblem: (problem: string) => void;
}

/** Runs a server until SIGTERM, Ctrl-C, or its own end. */
async function withService(
  command: Command,
  serve: (service: Service, end: AbortController) => Promise<void>,
): Promise<void> {
  const { readMcpConfig } = await import('../config.js');
  const { TemporalUnavailableError } = await import('../client/errors.js');
  const { maxWaitMs: maxToolWaitMs } = readMcpConfig();
  const onProblem = (problem: string) => printToStderr(`agent-jobs: ${problem}`);
  const end = new AbortController();
  process.once('SIGTERM', () => end.abort()).once('SIGINT', () => end.abort());
  const globals = command.optsWithGlobals<GlobalOptions>();
  let jobs: Promise<AgentJobs> | undefined;
  const forget = (error: unknown) => {
    jobs = undefined;
    throw error;
  };
  const connectOnce = () => (jobs ??= connect(globals, { signal: end.signal }).catch(forget));
  const service = { connect: connectOnce, version: versionOf(command), maxToolWaitMs, onProblem };
  try {
    await service.connect().catch((error: unknown) => {
      if (end.signal.aborted) return;
      if (!(error instanceof TemporalUnavailableError)) throw error;
      onProblem(`${error.message}; each request tries again`);
    });
    if (!end.signal.aborted) await serve(service, end);
  } finally {
    await (await jobs?.catch(() => undefined))?.close();
  }
}

async function serveHttp(service: Service, { signal }: AbortController): Promise<void> {
  const { cannotListen, readHttpConfig } = await import('../config.js');
  const { CallerKeys } = await import('../http/keys.js');
  const { HttpServer } = await import('../http/server.js');
  const { address, keysFile, healthAddress, strangersPerAddress, ...settings } = readHttpConfig();
  const keys = keysFile === undefined ? null : new CallerKeys(keysFile, service.onProblem);
  await keys?.read();
  const fail = (setting: string) => (error: unknown) => Promise.reject(cannotListen(setting, error));
  const limits = strangersPerAddress === undefined ? {} : { strangersPerAddress };
  const listening = HttpServer.listen({ ...service, ...settings, keys, limits }, address);
  const http = await listening.catch(fail('HTTP_ADDRESS'));
  try {
    if (healthAddress) await http.listenForProbes(healthAddress).catch(fail('HEALTH_ADDRESS'));
    print(`HTTP  ${http.url}, ${keys === null ? 'for this machine alone: HTTP_KEYS_FILE is not set' : 'with keys'}`);
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await http.end();
  }
}

async function serveTools({ maxToolWaitMs: maxWaitMs, ...service }: Service, end: AbortController): Promise<void> {
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const { mcpServer } = await import('../http/mcp.js');
  const { ANYBODY: caller } = await import('../http/keys.js');
  const { signal: ending } = end;
  process.stdin.once('end', () => end.abort());
  const onerror = (error: Error) => service.onProblem(error.message);
  const stdio = serveStdio(() => mcpServer({ ...service, caller, maxWaitMs, ending }), { onerror });
  if (!ending.aborted) await once(ending, 'abort');
  await stdio.close();
}
