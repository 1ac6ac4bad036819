/** `mcp`: the jobs as tools for an agent, on standard input and output, until its client closes them. */
import { once } from 'node:events';
import type { Command } from 'commander';
import type { AgentJobs } from '../starter.js';
import { connect, type GlobalOptions, printToStderr, versionOf } from './session.js';

const HELP = `
It has the rights of whoever starts it: all projects. "agent-jobs serve" has the same tools at /mcp, for callers with
keys. MCP_MAX_WAIT says how long a tool may wait (default: 50 seconds, since clients cut off calls at 60).`;

/** Adds `mcp`. */
export function addMcp(program: Command): void {
  const command = program
    .command('mcp')
    .description('serve the jobs as tools of the Model Context Protocol, on standard input and output')
    .addHelpText('after', HELP)
    .action(() => serve(command));
}

async function serve(command: Command): Promise<void> {
  const { readClientConfig, readMcpConfig } = await import('../config.js');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const { mcpServer } = await import('../http/mcp/server.js');
  const { ANYBODY: caller } = await import('../http/keys.js');
  const { maxWaitMs } = readMcpConfig();
  readClientConfig(); // What is wrong there is told at once, not by the first tool.
  const end = new AbortController();
  const { signal: ending } = end;
  process.once('SIGTERM', () => end.abort()).once('SIGINT', () => end.abort());
  process.stdin.once('end', () => end.abort());
  const temporal = connector(command.optsWithGlobals<GlobalOptions>(), ending);
  const onProblem = (problem: string) => printToStderr(`agent-jobs: ${problem}`);
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
    connect: () => (jobs ??= connect(globals, null, { signal }).catch(retry)),
    close: async () => (await jobs?.catch(() => undefined))?.close(),
  };
}
