/** `npm start`: Temporal, a worker and a sandbox upstream on this machine alone, and one job to watch. */
import { parseArgs } from 'node:util';
import { passingWait, printableLines } from '../agent-job/shown-text.js';
import { jobUrl, listUrl } from '../client/web-ui.js';
import {
  ConfigError,
  processEnvironment as env,
  readClientConfig,
  readUpstreamConfig,
  upstreamWarnings,
} from '../config.js';
import { messageOf } from '../config/config-error.js';
import { agentJobOf } from '../contract.js';
import { LAG_OPTIONS, lagsOf } from '../sandbox/jobs.js';
import type { JobHandle } from '../starter.js';
import { checkUpstream } from '../worker/upstream-check.js';
import { countEndpoints } from '../worker/webhooks.js';
import { type Stops, stopAll } from './child-process.js';
import {
  isIgnored,
  type LocalSystem,
  nextSteps,
  printEntry,
  printLine,
  SANDBOX_WEBHOOKS,
  startLocalSystem,
} from './local-system.js';

const USAGE = `Usage: npm start [-- options]

  --real            jobs go to the upstream of UPSTREAM_BASE_URL and ADMIN_API_KEY instead of a sandbox
  --late-pr TIME    how long after "completed" the sandbox shows the pull request, for example 15s
  --stale-end TIME  how long after a message the sandbox shows the old status, for example 10s`;

const DEMO_PROJECT = 'demo';
const KEY_START = 'demo-';
const DEMO_PROMPT = 'Add a page about pricing to the site';
const DEMO_FOLLOW_UP = 'Mention the free plan, too';

const ending = new AbortController();
const PARENT_POLL_MS = 300;

async function main(): Promise<void> {
  // A closed pipe must not end this process before its children.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const { values } = parseArgs({ options: { real: { type: 'boolean' }, help: { type: 'boolean' }, ...LAG_OPTIONS } });
  if (values.help) return printLine(USAGE);
  const lags = lagsOf(values);
  const isReal = values.real ?? false;
  if (isReal) printRealUpstream();
  printIgnored(isReal);
  void printWebhooksProblem(isReal);
  const { taskQueue } = readClientConfig({ AGENT_JOBS_TASK_QUEUE: env['AGENT_JOBS_TASK_QUEUE'] });
  const stops: Stops = [];
  const end = endOnce(stops, isReal);
  const onPartEnd = (part: string, how: string, log: string) =>
    void end(1, `${part} ended by itself (${how}). Start again, and the jobs go on; its log: ${log}`);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(0));
  // A kill of npm alone does not reach this process: it gets another parent then.
  const parent = process.ppid;
  if (env['npm_lifecycle_event']) setInterval(() => process.ppid === parent || void end(0), PARENT_POLL_MS).unref();
  try {
    const system = await startLocalSystem({ env, taskQueue, isReal, lags, signal: ending.signal, onPartEnd, stops });
    if (isReal) await checkRealUpstream();
    else await runDemo(system);
    printNextSteps(system, isReal);
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

/** Names the settings, without their values. */
function printIgnored(isReal: boolean): void {
  const names = Object.keys(env).filter((name) => env[name] && isIgnored(name, env, isReal));
  if (names.length > 0) printEntry('Ignored', names.toSorted().join(', '));
}

/** Shows what would only show in the worker's log. The start does not wait for it: a disk may hang. */
async function printWebhooksProblem(isReal: boolean): Promise<void> {
  const settings = isReal ? env : { ...SANDBOX_WEBHOOKS, ...env };
  const warn = (error: unknown) => printEntry('Warning', `no webhook is sent: ${messageOf(error)}`);
  await countEndpoints(settings).catch(warn);
}

/** Shows at once what would only show in the first job. The start goes on: a key or an upstream may come later. */
async function checkRealUpstream(): Promise<void> {
  const { text, finding } = await checkUpstream();
  if (finding === 'fails') printEntry('Warning', `${text}; mend that before the first job`);
}

/** Ends all processes, then this one. npm and the terminal both pass on one Ctrl-C: only the first one counts. */
function endOnce(stops: Stops, isReal: boolean): (code: number, why?: string) => Promise<void> {
  return async (code, why) => {
    if (ending.signal.aborted) return;
    ending.abort();
    if (why !== undefined) printError(why);
    if (stops.length > 0) printLine(isReal ? 'Stopping … (a write in flight is finished first)' : 'Stopping …');
    // A child that does not end is killed by its watchdog once this process has ended.
    await stopAll(stops).catch((error: unknown) => printError(messageOf(error)));
    process.exit(code);
  };
}

/** Runs the demo job to its end: a new one, or that of an earlier start if it still runs. */
async function runDemo({ jobs, webUi }: LocalSystem): Promise<void> {
  const earlier = await runningDemo(jobs);
  const key = earlier ?? `${KEY_START}${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}`;
  const job = await jobs.start({ projectId: DEMO_PROJECT, prompt: DEMO_PROMPT, key });
  const { workflowId } = job;
  printLine();
  printEntry('Workflow', `${workflowId}${earlier ? ' was under way when the last start ended; it goes on' : ''}`);
  const { runId } = await jobs.client.workflow.getHandle(workflowId).describe();
  printEntry('Web UI', jobUrl(webUi, { workflowId, runId }));
  await followDemo(job);
  const { outcome, prLink, polls } = await job.result({ signal: ending.signal });
  printLine();
  printEntry('Outcome', `${outcome} after ${polls} polls`);
  printEntry('PR', prLink ?? 'none');
}

async function runningDemo(jobs: LocalSystem['jobs']): Promise<string | undefined> {
  for await (const { workflowId } of jobs.list({ projectId: DEMO_PROJECT, isRunning: true })) {
    const key = agentJobOf(workflowId)?.key;
    if (key?.startsWith(KEY_START)) return key;
  }
  return undefined;
}

/** Prints each change of the job until its end, and sends the follow-up once there is a pull request. */
async function followDemo(job: JobHandle): Promise<void> {
  const printed = new Map<string, string>();
  for await (const { phase, jobId, job: record, prLink, followUps, waiting } of job.watch({ signal: ending.signal })) {
    const [followUp] = followUps;
    const entries = {
      Job: jobId && `${jobId} was created in project ${DEMO_PROJECT}`,
      Status: record?.status,
      'PR opened': prLink,
      'Follow-up': followUp && `"${DEMO_FOLLOW_UP}" ${followUp.state}`,
      Waiting: waiting && passingWait(waiting),
    };
    for (const [label, text] of Object.entries(entries)) {
      if (text && printed.get(label) !== text) printEntry(label, text);
      if (text) printed.set(label, text);
    }
    if (prLink && !followUp && phase === 'watching') await job.followUp(DEMO_FOLLOW_UP, { id: 'demo-follow-up' });
  }
}

function printNextSteps(system: LocalSystem, isReal: boolean): void {
  printLine();
  printEntry('All jobs', listUrl(system.webUi));
  printLine();
  printLine('Try next, in another terminal, from this folder:');
  for (const command of nextSteps(system, isReal ? 'YOUR_PROJECT_ID' : DEMO_PROJECT)) printLine(`  ${command}`);
  printLine('README.md goes on from there.');
  printLine();
  printLine('Everything stays up until Ctrl-C.');
}

function printError(text: string): void {
  process.stderr.write(`${printableLines(text)}\n`);
}

await main().catch((error: unknown) => {
  const hint = error instanceof ConfigError ? '\nnpm start -- --real takes them from the environment.' : `\n${USAGE}`;
  printError(messageOf(error) + hint);
  process.exitCode = error instanceof ConfigError ? 1 : 2;
});
