/** `mcp`: the jobs as tools for an agent, on standard input and output, until its client closes them. */
import { once } from 'node:events';
import type { Command } from 'commander';
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
  const { readMcpConfig } = await import('../config.js');
  const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
  const { mcpServer } = await import('../http/mcp/server.js');
  const { ANYBODY: caller } = await import('../http/keys.js');
  const { maxWaitMs } = readMcpConfig();
  const end = new AbortController();
  process.once('SIGTERM', () => end.abort()).once('SIGINT', () => end.abort());
  process.stdin.once('end', () => end.abort());
  const jobs = await connect(command.optsWithGlobals<GlobalOptions>());
  const onProblem = (problem: string) => printToStderr(`agent-jobs: ${problem}`);
  const service = { jobs, caller, maxWaitMs, ending: end.signal, version: versionOf(command), onProblem };
  const onerror = (error: Error) => onProblem(error.message);
  const stdio = serveStdio(() => mcpServer(service), { onerror });
  try {
    if (!end.signal.aborted) await once(end.signal, 'abort');
  } finally {
    await stdio.close();
    await jobs.close();
  }
}
