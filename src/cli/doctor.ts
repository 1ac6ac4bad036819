/** `doctor` examines a set-up, and tells check by check what it found. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { exportTaskQueue } from '../contract.js';
import type { PolledFor } from '../client/pollers.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import type { AgentJobs } from '../starter.js';
import type { wrongSearchAttributes } from '../temporal/search-attributes.js';
import { EXIT } from './exit.js';
import { addSnapshotsOption, openSnapshots, type SnapshotsFlags } from './export-options.js';
import { connect, type GlobalOptions, print, printJson, withInterrupt } from './session.js';
import { countOf, printable } from './show.js';

interface DoctorFlags extends SnapshotsFlags {
  project?: string;
  exports?: boolean;
  pingWebhooks?: boolean;
  json?: boolean;
}

const EXITS = `
Each check is ok, warn, fail or skip (not asked for, or another check failed first).
Exit code: 0 where none fails, 11 where Temporal does not answer, else 1`;

/** For what one check asks of Temporal: its error says more than that of the check's limit. */
const TEMPORAL_LIMIT_MS = 6_000;

/** Adds `doctor`, which examines the set-up and changes nothing that stays. */
export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('examine the set-up: Temporal, workers, upstream, key, snapshots')
    .option('--project <id>', 'ask the upstream about this project, so that its key is checked')
    .option('--exports', 'exports are wanted too: that no worker polls for them is a failure')
    .option('--ping-webhooks', 'send one signed event `ping` to each endpoint of webhooks')
    .option('--json', 'print one line of JSON for each check');
  command.addHelpText('after', EXITS);
  addSnapshotsOption(command).action((flags: DoctorFlags) =>
    withInterrupt(command, (signal) => examine(command.optsWithGlobals<GlobalOptions>(), flags, signal)),
  );
}

async function examine(globals: GlobalOptions, flags: DoctorFlags, signal: AbortSignal): Promise<void> {
  await loadChecks();
  const connection = connect(globals);
  const checks = [...temporalChecks(connection, flags, signal), ...settingsChecks(flags, signal)];
  // Ctrl-C ends all of them, and the first one tells.
  for (const { finding } of checks) finding.catch(() => {});
  try {
    for (const { name, finding } of checks) {
      const found = await finding;
      tellFinding(name, found, flags.json ?? false);
      if (found.status === 'fail')
        process.exitCode = found.isOutage ? EXIT.unavailable : (process.exitCode ?? EXIT.error);
    }
  } finally {
    const jobs = await connection.catch(() => null);
    await jobs?.close();
  }
  // What a check began and gave up may go on for long, as a disk that does not answer.
  process.stdout.write('', () => process.exit());
}

/** Before the first limit begins: a busy machine loads them slowly, and no server is to blame for that. */
async function loadChecks(): Promise<void> {
  await Promise.all([
    import('../starter.js'),
    import('../config.js'),
    import('../snapshots/open-store.js'),
    import('../temporal/search-attributes.js'),
    import('../worker/upstream-check.js'),
    import('../worker/webhooks.js'),
  ]);
}

/** All at once, in the order in which they are told. */
function temporalChecks(connection: Promise<AgentJobs>, flags: DoctorFlags, signal: AbortSignal): Check[] {
  const ask = (work: (jobs: AgentJobs) => Promise<Finding>) =>
    limited(signal, async (limit) => {
      const jobs = await connection;
      const { temporalCall } = await import('../client/temporal-call.js');
      return temporalCall(jobs.client, { signal: limit, timeoutMs: TEMPORAL_LIMIT_MS }, () => work(jobs));
    });
  const temporal = ask(({ client }) => checkTemporal(client));
  const askNext: typeof ask = async (work) => ((await temporal).status === 'ok' ? ask(work) : NOT_CHECKED);
  return [
    { name: 'Temporal', finding: temporal },
    { name: 'Search attributes', finding: askNext(({ client }) => checkSearchAttributes(client)) },
    { name: 'Retention', finding: askNext(({ client }) => checkRetention(client)) },
    { name: 'Worker', finding: askNext(checkJobWorker) },
    { name: 'Export worker', finding: askNext((jobs) => checkExportWorker(jobs, flags.exports ?? false)) },
  ];
}

function settingsChecks(flags: DoctorFlags, signal: AbortSignal): Check[] {
  const asked = limited(signal, () => checkUpstreamAndKey(flags.project));
  return [
    { name: 'Upstream', finding: asked },
    { name: 'Key', finding: asked.then((found) => ('key' in found && found.key) || NOT_CHECKED) },
    { name: 'Payload keys', finding: limited(signal, checkPayloadKeys) },
    { name: 'Snapshots', finding: limited(signal, () => checkStore(flags)) },
    { name: 'Webhooks', finding: limited(signal, () => checkWebhooks(flags.pingWebhooks ?? false), PING_LIMIT_MS) },
  ];
}

/** `skip`: not asked for, or another check failed first. */
type CheckStatus = 'ok' | 'warn' | 'fail' | 'skip';

/** What a check found. */
export interface Finding {
  status: CheckStatus;
  text: string;
  /** What to do, in lines of which each is a sentence or a command. */
  remedy?: readonly string[];
  /** Temporal does not answer. */
  isOutage?: boolean;
}

/** A check under its name. */
interface Check {
  name: string;
  finding: Promise<Finding>;
}

/** What is asked of Temporal and of the upstream has limits of its own, of seconds; a store has only this one. */
const CHECK_LIMIT_MS = 15_000;
/** A receiver of webhooks may take as long as that for its answer. */
const PING_LIMIT_MS = 20_000;

/** Runs a check that ends within its limit; an error of it is a finding. */
async function limited<T extends Finding>(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  limitMs = CHECK_LIMIT_MS,
): Promise<T | Finding> {
  const timeout = new AbortController();
  const tooLate = new Error(`no answer within ${limitMs / 1_000} seconds`);
  const timer = setTimeout(() => timeout.abort(tooLate), limitMs);
  const limit = AbortSignal.any([signal, timeout.signal]);
  try {
    return await Promise.race([work(limit), once(limit, 'abort').then(() => Promise.reject(limit.reason as Error))]);
  } catch (error) {
    signal.throwIfAborted();
    const { name, message } = timeout.signal.aborted ? tooLate : (error as Error);
    return { status: 'fail', text: message, isOutage: name === 'TemporalUnavailableError' };
  } finally {
    clearTimeout(timer);
  }
}

const NOT_CHECKED: Finding = { status: 'skip', text: 'not checked' };

/** A key should outlive any retry of its caller. */
const SHORTEST_RETENTION_DAYS = 30;
const DAY_SECONDS = 86_400;

/** Whether the server answers, and has the namespace. */
async function checkTemporal(client: Client): Promise<Finding> {
  const { namespace } = client.options;
  await client.workflowService.describeNamespace({ namespace });
  const { serverVersion } = await client.workflowService.getSystemInfo({});
  const version = serverVersion ? `, version ${serverVersion}` : '';
  return { status: 'ok', text: `answers${version}, namespace "${namespace}"` };
}

/** Without them no job makes progress, or can't be found. */
async function checkSearchAttributes(client: Client): Promise<Finding> {
  const { missingSearchAttributes } = await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const missing = await missingSearchAttributes(operatorOf(client), namespace);
  if (missing.length === 0) return (await checkTypes(client)) ?? { status: 'ok', text: 'all are registered' };
  const text = `namespace "${namespace}" lacks ${missing.join(', ')}`;
  return { status: 'fail', text, remedy: ['npx agent-jobs setup'] };
}

/** Jobs can't set a search attribute of another type, or can't be found by it; null where all are right. */
export async function checkTypes(client: Client): Promise<Finding | null> {
  const { removalCommands, wrongSearchAttributes: wrongOf } = await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const wrong = await wrongOf(operatorOf(client), namespace);
  if (wrong.length === 0) return null;
  const told = wrong.map(({ name, type }) => `${name} is ${type}`).join(', ');
  const names = wrong.map(({ name }) => name);
  const { selfHosted, cloud } = removalCommands(namespace, names);
  return {
    status: 'fail',
    text: `search attributes of namespace "${namespace}" are of another type than jobs set: ${told}`,
    remedy: [
      'Jobs are not found by them. Put them away, then run "agent-jobs setup" again. On a server of your own:',
      ...selfHosted.map(indented),
      'on Temporal Cloud:',
      ...cloud.map(indented),
    ],
  };
}

/** A command below the line that says what it is for. */
export function indented(line: string): string {
  return `  ${line}`;
}

/** The client's connection type leaves the operator service out; every real Connection has it. */
export function operatorOf({ connection }: Client): Parameters<typeof wrongSearchAttributes>[0] {
  return connection as unknown as Parameters<typeof wrongSearchAttributes>[0];
}

/** How long a namespace keeps closed jobs, and with them their keys. */
export async function checkRetention(client: Client): Promise<Finding> {
  const { temporalCall } = await import('../client/temporal-call.js');
  const { namespace } = client.options;
  const { config } = await temporalCall(client, {}, () => client.workflowService.describeNamespace({ namespace }));
  const seconds = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  const days = Math.round((seconds / DAY_SECONDS) * 10) / 10;
  const text = `a key is remembered for ${days} ${days === 1 ? 'day' : 'days'} after its job ended`;
  if (days >= SHORTEST_RETENTION_DAYS) return { status: 'ok', text };
  const why = `below ${SHORTEST_RETENTION_DAYS} days; a key that comes later makes a second job. Raise it with:`;
  const raise = `temporal operator namespace update --namespace "${namespace}" --retention ${SHORTEST_RETENTION_DAYS}d`;
  return { status: 'warn', text, remedy: [why, indented(raise)] };
}

/** Whether somebody serves the jobs. */
async function checkJobWorker({ client, taskQueue }: AgentJobs): Promise<Finding> {
  const found = await checkPollers(client, taskQueue, ['workflow', 'activity']);
  if (found.status === 'ok') return (await checkCurrentVersion(client, taskQueue)) ?? found;
  return { ...found, remedy: [`start one: AGENT_JOBS_TASK_QUEUE=${taskQueue} npm run worker`] };
}

/** Null where new jobs come to the workers that poll. */
async function checkCurrentVersion(client: Client, taskQueue: string): Promise<Finding | null> {
  const { livePollers } = await import('../client/pollers.js');
  const pollers = await livePollers(client, taskQueue, 'workflow');
  if (pollers.length === 0 || pollers.some(({ isCurrent }) => isCurrent)) return null;
  const version = pollers[0]?.version ?? null;
  const has = version === null ? 'have no version, and another is current' : `have ${version}, which is not current`;
  const remedy = ['temporal worker deployment set-current-version: see docs/upgrades.md'];
  return { status: 'fail', text: `the workers ${has}: new jobs wait`, remedy };
}

/** Whether somebody serves the exports, where they are asked for. */
async function checkExportWorker({ client, taskQueue }: AgentJobs, isAsked: boolean): Promise<Finding> {
  if (!isAsked) return { status: 'skip', text: 'not checked: --exports asks for it' };
  const found = await checkPollers(client, exportTaskQueue(taskQueue), ['activity']);
  return found.status === 'ok' ? found : { ...found, remedy: ['run a worker with SNAPSHOTS_URL set'] };
}

async function checkPollers(client: Client, taskQueue: string, work: readonly PolledFor[]): Promise<Finding> {
  const { livePollers } = await import('../client/pollers.js');
  const pollers = await Promise.all(work.map((polledFor) => livePollers(client, taskQueue, polledFor)));
  const queue = JSON.stringify(taskQueue);
  const missing = work.filter((_, index) => pollers[index]?.length === 0);
  if (missing.length > 0) {
    const tasks = missing.length === work.length ? '' : ` for its ${missing[0]} tasks`;
    return { status: 'fail', text: `no worker polls the task queue ${queue}${tasks}` };
  }
  const count = new Set(pollers.flat().map(({ identity }) => identity)).size;
  const last = Math.max(...pollers.flat().map(({ at }) => at));
  // A worker that was killed tells no end: who reads this sees how long ago it was there.
  const seconds = Math.max(0, Math.round((Date.now() - last) / 1_000));
  const text = `${count === 1 ? '1 worker polls' : `${count} workers poll`} the task queue ${queue}`;
  return { status: 'ok', text: `${text}, last ${seconds} s ago` };
}

const UPSTREAM_LIMIT_MS = 6_000;

/** Whether the upstream answers, and whether it takes the key: one read of a job that is nobody's tells both. */
async function checkUpstreamAndKey(project: string | undefined): Promise<Finding & { key?: Finding }> {
  const { checkUpstream } = await import('../worker/upstream-check.js');
  const { finding, text } = await checkUpstream(project, UPSTREAM_LIMIT_MS);
  if (finding === 'answers') return { status: 'ok', text, key: await keyFinding(project) };
  if (finding === 'keyRefused') return { status: 'ok', text: 'answers', key: { status: 'fail', text } };
  return { status: finding === 'notAsked' ? 'skip' : 'fail', text };
}

/** A key that works may still lie open. */
async function keyFinding(project: string | undefined): Promise<Finding> {
  const { readUpstreamConfig, upstreamWarnings } = await import('../config.js');
  const warnings = upstreamWarnings(readUpstreamConfig());
  const text = `the upstream takes the key${project === undefined ? '' : ` of project ${JSON.stringify(project)}`}`;
  if (warnings.length === 0) return { status: 'ok', text };
  return { status: 'warn', text: `${text}, but:`, remedy: warnings };
}

/** Whether the endpoints of webhooks can be read, and where that is asked for, whether each takes an event. */
async function checkWebhooks(isPing: boolean): Promise<Finding> {
  const { pingEndpoints, readEndpoints } = await import('../worker/webhooks.js');
  const endpoints = await readEndpoints();
  if (endpoints === null) return { status: 'skip', text: 'WEBHOOKS_FILE is not set' };
  const count = countOf(endpoints.all.length, 'endpoint');
  if (!isPing) return { status: 'ok', text: `${count} named` };
  const pings = await pingEndpoints(endpoints);
  const taken = pings.filter(({ isTaken }) => isTaken).length;
  const text = [`${taken} of ${count} took the ping`, ...pings.map((ping) => ping.text)].join('\n');
  return { status: taken === pings.length ? 'ok' : 'fail', text };
}

/** Whether the keys that encrypt payloads can be read, by whom they should be alone. */
async function checkPayloadKeys(): Promise<Finding> {
  const { processEnvironment, payloadKeysWarnings } = await import('../config.js');
  const { readPayloadKeys } = await import('../config/client.js');
  const path = processEnvironment['PAYLOAD_KEYS_FILE']?.trim();
  if (!path) return { status: 'skip', text: 'off: PAYLOAD_KEYS_FILE is not set here' };
  readPayloadKeys();
  const warnings = payloadKeysWarnings(path);
  if (warnings.length > 0) return { status: 'warn', text: 'others can read the keys', remedy: warnings };
  return { status: 'ok', text: 'PAYLOAD_KEYS_FILE has usable keys' };
}

/** Whether snapshots can be written, read and removed. */
async function checkStore(flags: SnapshotsFlags): Promise<Finding> {
  const { processEnvironment } = await import('../config.js');
  if (!(flags.snapshots ?? processEnvironment['SNAPSHOTS_URL'])) {
    return { status: 'skip', text: 'not checked: SNAPSHOTS_URL is not set here' };
  }
  const store = await openSnapshots(flags);
  if (store.url.startsWith('file:') && !existsSync(fileURLToPath(store.url))) {
    return { status: 'warn', text: `${store.url} is not there yet: the first export makes it` };
  }
  await tryStore(store);
  return { status: 'ok', text: `${store.url} can be written and read` };
}

/** Outside of what is published. */
async function tryStore(store: SnapshotStore): Promise<void> {
  const { STAGING } = await import('../snapshots/layout.js');
  const folder = `${STAGING}/doctor-${randomUUID()}`;
  const key = `${folder}/probe`;
  const probe = Buffer.from(key);
  await store.put(key, probe);
  const read = await store.read(key);
  await store.removeFolder(folder);
  if (!read?.equals(probe)) throw new Error(`${store.urlOf(key)} is not read as it was written`);
}

const NAME_WIDTH = 18;

/** Tells what a check found, and below it what to do. */
export function tellFinding(name: string, { status, text, remedy = [] }: Finding, isJson: boolean): void {
  if (isJson) return printJson({ check: name, status, text, remedy });
  const [first = '', ...more] = text.split('\n');
  const lines = [...more, ...remedy.map((line) => `→ ${line}`)].map(
    (line) => ' '.repeat(NAME_WIDTH + 7) + printable(line),
  );
  print([`${status.padEnd(4)}  ${name.padEnd(NAME_WIDTH)} ${printable(first)}`, ...lines].join('\n'));
}
