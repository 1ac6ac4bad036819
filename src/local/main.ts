/** `npm start`: Temporal, a worker and a sandbox upstream on this machine alone, and one job to watch. */
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { checkUpstream } from '../worker/upstream-check.js';
import {
  ConfigError,
  hasTemporalProfile,
  processEnvironment as env,
  readUpstreamConfig,
  upstreamWarnings,
} from '../config.js';
import { jobUrl, listUrl, webUiViews, type WebUi } from '../client/web-ui.js';
import type { DevServer } from './dev-server.js';
import { followDemoJob, startDemoJob } from './demo-job.js';
import { foreignTemporalSettings, ignoredSettings } from './worker-process.js';
import { LocalSystem, nextSteps, Output } from './local-system.js';
import { findParent, whenParentEnds } from './data-folder.js';

const USAGE = `Usage: npm start [-- --real]

  --real   jobs go to the upstream of UPSTREAM_BASE_URL and ADMIN_API_KEY instead of a sandbox`;

const output = new Output(env);
const ending = new AbortController();

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { real: { type: 'boolean' }, help: { type: 'boolean' } } });
  if (values.help) return output.line(USAGE);
  const isReal = values.real ?? false;
  // Without the two dashes between npm takes the option as its own.
  if (!isReal && env['npm_config_real']) throw new Error('npm kept --real to itself: two more dashes go before it');
  if (isReal) printRealUpstream();
  const ignored = ignoredSettings(env, isReal);
  if (ignored.length > 0)
    output.entry('Ignored', `${ignored.join(', ')} (set here, but npm start uses servers of its own)`);
  const parent = findParent(env);
  const onServerEnd = (how: string) =>
    void fail(
      new Error(
        `Temporal's dev server ended by itself (${how}). Start again, and the jobs go on; its log: ${system.serverLog}`,
      ),
    );
  const system = new LocalSystem({ env, output, isReal, parent, signal: ending.signal, onServerEnd });
  const end = endOnce(system, isReal);
  const fail = (error: unknown) => end(1, messageOf(error));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => void end(0, undefined, signal));
  if (parent) whenParentEnds(parent, () => void end(0));
  try {
    await system.start();
    const workflowId = isReal ? undefined : await runDemo(system);
    if (isReal) await checkRealUpstream();
    printNextSteps(system, workflowId);
  } catch (error) {
    if (!ending.signal.aborted) await fail(error);
  }
}

function printRealUpstream(): void {
  output.entry('REAL JOBS', 'every job of this server is a real one, made with your key at the real upstream');
  const upstream = readUpstreamConfig(env);
  output.entry('Upstream', upstream.baseUrl);
  for (const warning of upstreamWarnings(upstream)) output.entry('Warning', warning);
}

/** Shows at once what would only show in the first job. The start goes on: a key or an upstream may come later. */
async function checkRealUpstream(): Promise<void> {
  const { text, isWrong } = await checkUpstream();
  if (isWrong) output.entry('Warning', `${text}; mend that before the first job`);
}

/** npm and the terminal both pass on one Ctrl-C. */
const SAME_CTRL_C_MS = 1_000;

/** Ends all processes, then this one; at a second Ctrl-C, this one at once. */
function endOnce(
  system: LocalSystem,
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
    if (why !== undefined) output.error(why);
    if (system.isUp) output.line(isReal ? 'Stopping … (a write in flight is finished first)' : 'Stopping …');
    // A child that does not end is killed by its watchdog once this process has ended.
    await system.stop().catch((error: unknown) => output.error(messageOf(error)));
    process.exit(code);
  };
}

/** Runs the demo job to its end and answers with its workflow id. */
async function runDemo({ jobs, server, demoFile }: LocalSystem): Promise<string> {
  const { job, isResumed } = await startDemoJob(jobs, demoFile);
  const { workflowId } = job;
  output.line();
  output.entry('Workflow', `${workflowId}${isResumed ? ' was under way when the last start ended; it goes on' : ''}`);
  const { runId } = await jobs.client.workflow.getHandle(workflowId).describe();
  const page = jobUrl(webUi(server), { workflowId, runId });
  output.entry('Web UI', page);
  await followDemoJob(job, (label, text) => output.entry(label, text), ending.signal);
  const { outcome, job: record, polls } = await job.result({ signal: ending.signal });
  output.line();
  output.entry('Outcome', `${outcome} after ${polls} reads`);
  output.entry('PR', record?.prLink ?? 'none');
  output.entry('Web UI', page);
  return workflowId;
}

function printNextSteps(system: LocalSystem, workflowId: string | undefined): void {
  const { server, taskQueue, httpUrl, snapshotsUrl } = system;
  const { address } = server;
  output.line();
  if (workflowId === undefined) output.entry('Web UI', listUrl(webUi(server)));
  for (const { title, url } of webUiViews(webUi(server))) {
    output.line(`${title[0]?.toUpperCase()}${title.slice(1)}:`);
    output.line(`  ${url}`);
  }
  output.line();
  output.line('Try next, in another terminal, from this folder:');
  const unset = foreignTemporalSettings(env);
  const profileFile = hasTemporalProfile(env) ? system.profileFile : undefined;
  const place = { address, taskQueue, httpUrl, snapshotsUrl, unset, profileFile };
  for (const command of nextSteps({ ...place, workflowId })) output.line(`  ${command}`);
  output.line();
  output.line('Everything stays up until Ctrl-C.');
}

function webUi({ uiUrl = '', namespace }: DevServer): WebUi {
  return { url: uiUrl, namespace };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

await main().catch((error: unknown) => {
  const hint = error instanceof ConfigError ? '\nnpm start -- --real takes them from the environment.' : `\n${USAGE}`;
  output.error(messageOf(error) + hint);
  process.exitCode = error instanceof ConfigError ? 1 : 2;
});
