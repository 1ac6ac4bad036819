/** `doctor` examines a set-up by six checks, and changes nothing that stays. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, constants, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { exportTaskQueue } from '../contract.js';
import { firstOf } from '../client/concurrently.js';
import type { PolledFor } from '../client/pollers.js';
import type { AgentJobs } from '../starter.js';
import { POLLS_ARE_CUT } from '../temporal/heartbeats.js';
import { checkNamespace, checkSearchAttributes, type Finding, printFindings } from './setup.js';
import type { SnapshotStore } from '../exports/snapshots/snapshot-store.js';
import { openSnapshots } from './export-options.js';
import { connect, type GlobalOptions, withInterrupt } from './session.js';
import { countOf, printable } from './show.js';

interface DoctorFlags {
  project?: string;
  exports?: boolean;
  json?: boolean;
}

const HELP = `
Each check is ok, warn, fail or skip (not asked for, or another check failed first).
Exit code: 0 if none fails, 11 if Temporal does not answer, else 1`;

/** Limits one call to Temporal or the upstream. A check's limit is longer, for the error of a call says more. */
const REQUEST_LIMIT_MS = 6_000;
/** Limits a whole check; a disk may take long. */
const CHECK_LIMIT_MS = 20_000;

/** Adds `doctor`. */
export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('examine the set-up: Temporal, workers, upstream, key, snapshots, webhooks')
    .option('--project <id>', 'ask the upstream about this project, so that its key is checked')
    .option('--exports', 'exports are wanted too: that no worker polls for them is a failure')
    .option('--json', 'print one line of JSON for each check');
  command.addHelpText('after', HELP);
  command.action((flags: DoctorFlags) =>
    withInterrupt((signal) => examine(command.optsWithGlobals<GlobalOptions>(), flags, signal)),
  );
}

async function examine(globals: GlobalOptions, flags: DoctorFlags, signal: AbortSignal): Promise<void> {
  const connection = connect(globals);
  const askServer = async (work: (jobs: AgentJobs) => Promise<Finding>) => {
    const jobs = await connection;
    const { temporalCall } = await import('../client/temporal-call.js');
    return temporalCall(jobs.client, { signal, timeoutMs: REQUEST_LIMIT_MS }, () => work(jobs));
  };
  const namespace = limited(signal, () => askServer(({ client }) => checkNamespace(client)));
  /** Asks the server, or skips the check if that of the namespace failed. */
  const ifThere = async (work: (jobs: AgentJobs) => Promise<Finding>): Promise<Finding> =>
    (await namespace).status === 'fail' ? { status: 'skip', text: 'not checked' } : askServer(work);
  const checks: Record<string, () => Promise<Finding>> = {
    Temporal: () => namespace,
    'Search attributes': () => ifThere(({ client }) => checkSearchAttributes(client)),
    Worker: () => ifThere((jobs) => checkWorkers(jobs, flags.exports)),
    Upstream: () => checkUpstreamAndKey(flags.project),
    Snapshots: async () => checkStore((await namespace).status === 'fail' ? null : await connection),
    Webhooks: checkWebhooks,
  };
  const found = Object.entries(checks).map(([name, check]) => [name, limited(signal, check)] as const);
  // Ctrl-C ends all checks, and the first one reports the end.
  for (const [, finding] of found) finding.catch(() => {});
  async function* inOrder(): AsyncGenerator<readonly [name: string, finding: Finding]> {
    for (const [name, finding] of found) yield [name, await finding];
  }
  try {
    await printFindings(inOrder(), flags.json);
  } finally {
    const jobs = await connection.catch(() => null);
    await jobs?.close();
  }
}

/** Runs a check within its limit; an error of the check becomes a finding. */
async function limited(signal: AbortSignal, check: () => Promise<Finding>): Promise<Finding> {
  const limit = firstOf([signal, AbortSignal.timeout(CHECK_LIMIT_MS)]);
  const tooLate = once(limit.signal, 'abort').then(() => Promise.reject(new Error('no answer in time')));
  try {
    return await Promise.race([check(), tooLate]);
  } catch (error) {
    signal.throwIfAborted();
    return { status: 'fail', text: (error as Error).message, error: error as Error };
  } finally {
    limit.release();
  }
}

/** Whether workers serve the jobs, and the exports if they are asked for. */
async function checkWorkers({ client, taskQueue }: AgentJobs, wantsExports = false): Promise<Finding> {
  const start = `start one: AGENT_JOBS_TASK_QUEUE=${taskQueue} npm run worker`;
  const jobs = await checkPollers(client, taskQueue, ['workflow', 'activity'], start);
  const found = jobs.status === 'ok' ? await checkVersions(client, taskQueue, jobs) : [jobs];
  if (wantsExports) {
    const remedy = 'run a worker with SNAPSHOTS_URL set';
    found.push(await checkPollers(client, exportTaskQueue(taskQueue), ['activity'], remedy));
  }
  return {
    status: (['fail', 'warn'] as const).find((each) => found.some(({ status }) => status === each)) ?? 'ok',
    text: found.map(({ text }) => text).join('\n'),
    remedy: found.flatMap(({ remedy = [] }) => remedy),
  };
}

/** What the workers that poll are good for: that new jobs do not reach them, or that no open run needs some of them. */
async function checkVersions(client: Client, taskQueue: string, polled: Finding): Promise<Finding[]> {
  const { idleVersions, livePollers } = await import('../client/pollers.js');
  const pollers = await livePollers(client, taskQueue, 'workflow');
  if (pollers.length > 0 && !pollers.some(({ isCurrent }) => isCurrent)) {
    const version = pollers[0]?.version ?? null;
    const has = version === null ? 'have no version, and another is current' : `have ${version}, which is not current`;
    const remedy = ['temporal worker deployment set-current-version: see docs/operations.md'];
    return [{ status: 'fail', text: `the workers ${has}: new jobs wait`, remedy }];
  }
  const found: Finding[] = [polled];
  if (pollers.some(({ isCut }) => isCut)) found.push({ status: 'warn', text: POLLS_ARE_CUT });
  for (const version of await idleVersions(client, pollers)) {
    const remedy = ['its workers can go: see docs/operations.md'];
    found.push({ status: 'warn', text: `no open run is on ${version}`, remedy });
  }
  return found;
}

async function checkPollers(
  client: Client,
  taskQueue: string,
  work: readonly PolledFor[],
  remedy: string,
): Promise<Finding> {
  const { livePollers } = await import('../client/pollers.js');
  const pollers = await Promise.all(work.map((polledFor) => livePollers(client, taskQueue, polledFor)));
  const queue = JSON.stringify(taskQueue);
  const missing = work.filter((_, index) => pollers[index]?.length === 0);
  if (missing.length > 0) {
    const tasks = missing.length === work.length ? '' : ` for its ${missing[0]} tasks`;
    return { status: 'fail', text: `no worker polls the task queue ${queue}${tasks}`, remedy: [remedy] };
  }
  const count = new Set(pollers.flat().map(({ identity }) => identity)).size;
  const last = Math.max(...pollers.flat().map(({ at }) => at));
  // A worker that was killed reports no end: the reader sees how long ago it was there.
  const seconds = Math.max(0, Math.round((Date.now() - last) / 1_000));
  const text = `${count === 1 ? '1 worker polls' : `${count} workers poll`} the task queue ${queue}`;
  return { status: 'ok', text: `${text}, last ${seconds} s ago` };
}

/** Whether the upstream answers and takes the key. A key that works may still cross the network in clear text. */
async function checkUpstreamAndKey(project: string | undefined): Promise<Finding> {
  const { checkUpstream } = await import('../worker/upstream-check.js');
  const { readUpstreamConfig, upstreamWarnings } = await import('../config.js');
  const { finding, text } = await checkUpstream(project, REQUEST_LIMIT_MS);
  if (finding !== 'answers') return { status: finding === 'notAsked' ? 'skip' : 'fail', text };
  const remedy = upstreamWarnings(readUpstreamConfig());
  return { status: remedy.length === 0 ? 'ok' : 'warn', text: `${text}, and takes the key`, remedy };
}

async function checkWebhooks(): Promise<Finding> {
  const { countEndpoints } = await import('../worker/webhooks.js');
  const count = await countEndpoints();
  if (count === null) return { status: 'skip', text: 'WEBHOOKS_FILE is not set' };
  return { status: 'ok', text: `${countOf(count, 'endpoint')} named` };
}

/** Whether the store can write, read and remove a file, and whether each project in it has a Schedule. */
async function checkStore(jobs: AgentJobs | null): Promise<Finding> {
  const { processEnvironment } = await import('../config.js');
  if (!processEnvironment['SNAPSHOTS_URL']) {
    return { status: 'skip', text: 'not checked: SNAPSHOTS_URL is not set here' };
  }
  const store = await openSnapshots();
  if (store.url.startsWith('file:') && !existsSync(fileURLToPath(store.url))) {
    return checkAbsentFolder(store.url);
  }
  const { PROBE_BYTES, STAGING } = await import('../exports/snapshots/layout.js');
  const folder = `${STAGING}/doctor-${randomUUID()}`;
  const key = `${folder}/probe`;
  const probe = Buffer.alloc(PROBE_BYTES, key);
  await store.put(key, probe);
  const read = await store.read(key);
  await store.removeFolder(folder);
  if (!read?.equals(probe)) throw new Error(`${store.urlOf(key)} is not read as it was written`);
  const text = `${store.url} can be written and read`;
  const unscheduled = jobs === null ? [] : await projectsWithoutSchedule(store, jobs);
  if (unscheduled.length === 0) return { status: 'ok', text };
  const names = unscheduled.map((project) => printable(project)).join(', ');
  const remedy = ['a server forgets a Schedule that was paused for long: npx agent-jobs schedule --project ID'];
  return { status: 'warn', text: `${text}, but projects with fresh snapshots have no Schedule: ${names}`, remedy };
}

/** A folder that is not there: whether an export, with the rights of this user, can make it. */
function checkAbsentFolder(url: string): Finding {
  let parent = dirname(fileURLToPath(url));
  while (!existsSync(parent)) parent = dirname(parent);
  try {
    accessSync(`${parent}/.`, constants.W_OK | constants.X_OK);
    return { status: 'warn', text: `${url} is not there yet: the first export makes it` };
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code === 'ENOTDIR' ? 'is no folder' : 'is not writable for this user';
    return { status: 'fail', text: `${url} is not there, and an export can not make it: ${parent} ${why}` };
  }
}

async function projectsWithoutSchedule(store: SnapshotStore, jobs: AgentJobs): Promise<string[]> {
  const { unscheduledProjects } = await import('../exports/snapshots/catalog.js');
  const scheduled = (await jobs.exportSchedules()).map(({ projectId }) => projectId);
  return unscheduledProjects(store, new Set(scheduled), Date.now());
}
