/** `npm start`: Temporal, a worker and a sandbox upstream on this machine alone, and one job to watch. */
import { constants } from 'node:os';
import { parseArgs } from 'node:util';
import { checkUpstream } from '../cli/upstream-check.js';
import {
  ConfigError,
  hasTemporalProfile,
  processEnvironment as env,
  readUpstreamConfig,
  upstreamWarnings,
} from '../config.js';
import { followDemoJob, startDemoJob } from './demo-job.js';
import { EmbeddedSystem } from './embedded-system.js';
import { foreignTemporalSettings, ignoredSettings } from './ignored-settings.js';
import { findLauncher, whenLauncherEnds } from './parent-process.js';
import { nextSteps, workflowPage } from './next-steps.js';
import { Report } from './report.js';

const USAGE = `Usage: npm start [-- --real]

  --real   jobs go to the upstream of UPSTREAM_BASE_URL and ADMIN_API_KEY instead of a sandbox`;

const report = new Report(env);
const ending = new AbortController();

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { real: { type: 'boolean' }, help: { type: 'boolean' } } });
  if (values.help) return report.line(USAGE);
  const isReal = values.real ?? false;
  // Without the two dashes between npm takes the option as its own.
  if (!isReal && env['npm_config_real']) throw new Error('npm kept --real to itself: two more dashes go before it');
  if (isReal) introduceUpstream();
  const ignored = ignoredSettings(env, isReal);
  if (ignored.length > 0)
    report.entry('Ignored', `${ignored.join(', ')} (set here, but npm start uses servers of its own)`);
  const launcher = findLauncher(env);
  const onServerEnd = (how: string) =>
    void fail(
      new Error(
        `Temporal's dev server ended by itself (${how}). Start again, and the jobs go on; its log: ${system.serverLog}`,
      ),
    );
  const system = new EmbeddedSystem({ env, report, isReal, launcher, signal: ending.signal, onServerEnd });
  const end = endOnce(system, isReal);
  const fail = (error: unknown) => end(1, describe(error));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => void end(0, undefined, signal));
  if (launcher) whenLauncherEnds(launcher, () => void end(0));
  try {
    await system.start();
    const workflowId = isReal ? undefined : await runDemo(system);
    if (isReal) await checkRealUpstream();
    tellWhatNext(system, workflowId);
  } catch (error) {
    if (!ending.signal.aborted) await fail(error);
  }
}

function introduceUpstream(): void {
  report.entry('REAL JOBS', 'every job of this server is a real one, made with your key at the real upstream');
  const upstream = readUpstreamConfig(env);
  report.entry('Upstream', upstream.baseUrl);
  for (const warning of upstreamWarnings(upstream)) report.entry('Warning', warning);
}

/** Tells at once what would only show in the first job; it is no reason to end, for a key or an upstream may come later. */
async function checkRealUpstream(): Promise<void> {
  const { text, isWrong } = await checkUpstream();
  if (isWrong) report.entry('Warning', `${text}; mend that before the first job`);
}

/** npm and the terminal both pass on one Ctrl-C. */
const SAME_CTRL_C_MS = 1_000;

/** Ends all processes, then this one; asked again by an impatient user, at once. */
function endOnce(
  system: EmbeddedSystem,
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
    if (why !== undefined) report.error(why);
    if (system.isUp) report.line(isReal ? 'Stopping … (a write in flight is finished first)' : 'Stopping …');
    // Whatever hangs on its way out is killed by its guard once this process has ended.
    await system.stop().catch((error: unknown) => report.error(describe(error)));
    process.exit(code);
  };
}

/** Runs the demo job to its end and answers with its workflow id. */
async function runDemo({ jobs, server, demoFile }: EmbeddedSystem): Promise<string> {
  const { job, isResumed } = await startDemoJob(jobs, demoFile);
  const { workflowId } = job;
  report.line();
  report.entry('Workflow', `${workflowId}${isResumed ? ' was under way when the last start ended; it goes on' : ''}`);
  const { runId } = await jobs.client.workflow.getHandle(workflowId).describe();
  const page = workflowPage(server.uiUrl ?? '', server.namespace, workflowId, runId);
  report.entry('Web UI', page);
  await followDemoJob(job, (label, text) => report.entry(label, text), ending.signal);
  const { outcome, job: record, polls } = await job.result({ signal: ending.signal });
  report.line();
  report.entry('Outcome', `${outcome} after ${polls} reads`);
  report.entry('PR', record?.prLink ?? 'none');
  report.entry('Web UI', page);
  return workflowId;
}

function tellWhatNext(system: EmbeddedSystem, workflowId: string | undefined): void {
  const { server, taskQueue, snapshotsUrl } = system;
  const { address, namespace, uiUrl } = server;
  if (workflowId === undefined) report.entry('Web UI', `${uiUrl}/namespaces/${namespace}/workflows`);
  report.line();
  report.line('Try next, in another terminal, from this folder:');
  const unset = foreignTemporalSettings(env);
  const profileFile = hasTemporalProfile(env) ? system.profileFile : undefined;
  const place = { address, taskQueue, snapshotsUrl, unset, profileFile };
  for (const command of nextSteps({ ...place, workflowId })) report.line(`  ${command}`);
  report.line();
  report.line('Everything stays up until Ctrl-C.');
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

await main().catch((error: unknown) => {
  const hint = error instanceof ConfigError ? '\nnpm start -- --real takes them from the environment.' : `\n${USAGE}`;
  report.error(describe(error) + hint);
  process.exitCode = error instanceof ConfigError ? 1 : 2;
});
