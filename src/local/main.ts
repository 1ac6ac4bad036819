/** `npm start`: Temporal, a worker and a sandbox upstream on this machine alone, and one job to watch. */
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { printableLines } from '../agent-job/shown-text.js';
import { checkUpstream } from '../worker/upstream-check.js';
import {
  ConfigError,
  hasTemporalProfile,
  processEnvironment as env,
  readClientConfig,
  readUpstreamConfig,
  upstreamWarnings,
} from '../config.js';
import { jobUrl, listUrl, webUiViews, type WebUi } from '../client/web-ui.js';
import type { AgentJobs } from '../starter.js';
import { followDemoJob, startDemoJob } from './demo-job.js';
import { foreignTemporalSettings, ignoredSettings } from './worker-process.js';
import { nextSteps, printEntry, printLine, startLocalSystem } from './local-system.js';
import { type Stops, stopAll } from './child-process.js';

const USAGE = `Usage: npm start [-- --real]

  --real   jobs go to the upstream of UPSTREAM_BASE_URL and ADMIN_API_KEY instead of a sandbox`;

const ending = new AbortController();
const PARENT_POLL_MS = 300;

async function main(): Promise<void> {
  // A closed pipe must not end this process before its children.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const { values } = parseArgs({ options: { real: { type: 'boolean' }, help: { type: 'boolean' } } });
  if (values.help) return printLine(USAGE);
  const isReal = values.real ?? false;
  // Without the two dashes between npm takes the option as its own.
  if (!isReal && env['npm_config_real']) throw new Error('npm kept --real to itself: two more dashes go before it');
  if (isReal) printRealUpstream();
  const ignored = ignoredSettings(env, isReal);
  if (ignored.length > 0)
    printEntry('Ignored', `${ignored.join(', ')} (set here, but npm start uses servers of its own)`);
  const { taskQueue } = readClientConfig({ AGENT_JOBS_TASK_QUEUE: env['AGENT_JOBS_TASK_QUEUE'] });
  const stops: Stops = [];
  const end = endOnce(stops, isReal);
  const onServerEnd = (how: string, log: string) =>
    void end(1, `Temporal's dev server ended by itself (${how}). Start again, and the jobs go on; its log: ${log}`);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => void end(0, undefined, signal));
  // A kill of npm alone does not reach this process: it gets another parent then.
  const parent = process.ppid;
  if (env['npm_lifecycle_event']) setInterval(() => process.ppid === parent || void end(0), PARENT_POLL_MS).unref();
  try {
    const options = { env, taskQueue, isReal, signal: ending.signal, onServerEnd, stops };
    const system = await startLocalSystem(options);
    const workflowId = isReal ? undefined : await runDemo(system.jobs, system.webUi);
    if (isReal) await checkRealUpstream();
    const shell = { unset: foreignTemporalSettings(env), hasProfile: hasTemporalProfile(env) };
    printNextSteps(system.webUi, nextSteps(system, { workflowId, ...shell }), isReal);
  } catch (error) {
    if (!ending.signal.aborted) await end(1, messageOf(error));
  }
}

function printRealUpstream(): void {
  printEntry('REAL JOBS', 'every job of this server is a real one, made with your key at the real upstream');
  const upstream = readUpstreamConfig(env);
  printEntry('Upstream', upstream.baseUrl);
  for (const warning of upstreamWarnings(upstream)) printEntry('Warning', warning);
}

/** Shows at once what would only show in the first job. The start goes on: a key or an upstream may come later. */
async function checkRealUpstream(): Promise<void> {
  const { text, finding } = await checkUpstream();
  if (finding === 'fails') printEntry('Warning', `${text}; mend that before the first job`);
}

/** npm and the terminal both pass on one Ctrl-C. */
const SAME_CTRL_C_MS = 1_000;

/** Ends all processes, then this one; at a second Ctrl-C, this one at once. */
function endOnce(
  stops: Stops,
  isReal: boolean,
): (code: number, why?: string, signal?: NodeJS.Signals) => Promise<void> {
  let since = 0;
  return async (code, why, signal) => {
    if (ending.signal.aborted) {
      const isImpatient = signal === 'SIGINT' && performance.now() - since > SAME_CTRL_C_MS;
      if (isImpatient) process.exit(128 + constants.signals.SIGINT);
      return;
    }
    since = performance.now();
    ending.abort();
    if (why !== undefined) printError(why);
    if (stops.length > 0) printLine(isReal ? 'Stopping … (a write in flight is finished first)' : 'Stopping …');
    // A child that does not end is killed by its watchdog once this process has ended.
    await stopAll(stops).catch((error: unknown) => printError(messageOf(error)));
    process.exit(code);
  };
}

/** Runs the demo job to its end and answers with its workflow id. */
async function runDemo(jobs: AgentJobs, webUi: WebUi): Promise<string> {
  const { job, isResumed } = await startDemoJob(jobs);
  const { workflowId } = job;
  printLine();
  printEntry('Workflow', `${workflowId}${isResumed ? ' was under way when the last start ended; it goes on' : ''}`);
  const { runId } = await jobs.client.workflow.getHandle(workflowId).describe();
  const page = jobUrl(webUi, { workflowId, runId });
  printEntry('Web UI', page);
  await followDemoJob(job, printEntry, ending.signal);
  const { outcome, job: record, polls } = await job.result({ signal: ending.signal });
  printLine();
  printEntry('Outcome', `${outcome} after ${polls} reads`);
  printEntry('PR', record?.prLink ?? 'none');
  printEntry('Web UI', page);
  return workflowId;
}

function printNextSteps(webUi: WebUi, commands: string[], isReal: boolean): void {
  printLine();
  if (isReal) printEntry('Web UI', listUrl(webUi));
  for (const { title, url } of webUiViews(webUi)) {
    printLine(`${title[0]?.toUpperCase()}${title.slice(1)}:`);
    printLine(`  ${url}`);
  }
  printLine();
  printLine('Try next, in another terminal, from this folder:');
  for (const command of commands) printLine(`  ${command}`);
  printLine();
  printLine('Everything stays up until Ctrl-C.');
}

function printError(text: string): void {
  process.stderr.write(`${printableLines(text)}\n`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

await main().catch((error: unknown) => {
  const hint = error instanceof ConfigError ? '\nnpm start -- --real takes them from the environment.' : `\n${USAGE}`;
  printError(messageOf(error) + hint);
  process.exitCode = error instanceof ConfigError ? 1 : 2;
});
