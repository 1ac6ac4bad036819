/**
 * docs/runbooks.md, command by command: a fail-over, a lost namespace, and lost snapshots. A restore is in
 * disaster-recovery.test.ts.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { startSandbox } from '../../src/testing.js';
import { RestorableServer } from './restorable-server.js';
import { Runbook } from '../support/runbook.js';
import { needToolchain } from '../support/toolchains.js';
import { startWorkerProcess, until, type WorkerProcess } from '../support/worker-process.js';
import { useForFile } from '../support/use.js';

const TASK_QUEUE = 'disasters';
const PAGE = 'docs/runbooks.md';
const SETTING = 'CONFIRM_WRITES_BEFORE';
/** A command has a patience of its own, and a busy machine more than one of them to wait for. */
const PATIENCE = { timeout: 120_000, interval: 2_000 };

/** First lines of the page's blocks that other tests run. */
const RUN_ELSEWHERE = ['agent-jobs attention --json > rest.ndjson', 'agent-jobs resolve --from rest.ndjson --yes'];

let server: RestorableServer;
const sandbox = useForFile(() =>
  startSandbox({ script: { activeMs: 3_600_000, followUp: 'ignore' }, visitors: { rows: 300 } }),
);
const closed: (() => unknown)[] = [];

beforeAll(async () => {
  server = await RestorableServer.start();
});
afterEach(async () => {
  for (const close of closed.splice(0).toReversed()) await close();
});
afterAll(async () => {
  await server?.close();
});

/** A namespace of a server as its callers, its operator and its worker reach it. */
class Site {
  readonly jobs: AgentJobs;
  readonly runbook: Runbook;
  readonly #env: Record<string, string>;
  worker!: WorkerProcess;

  private constructor(jobs: AgentJobs, runbook: Runbook, env: Record<string, string>) {
    this.jobs = jobs;
    this.runbook = runbook;
    this.#env = env;
  }

  static async open(address: string, namespace: string): Promise<Site> {
    const connection = await Connection.connect({ address });
    closed.push(() => connection.close());
    const place = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, AGENT_JOBS_TASK_QUEUE: TASK_QUEUE };
    const runbook = await Runbook.open(PAGE, place);
    const snapshots = { SNAPSHOTS_URL: pathToFileURL(join(runbook.folder, 'snapshots')).href };
    runbook.set(snapshots);
    const client = new Client({ connection, namespace });
    return new Site(new AgentJobs({ client, taskQueue: TASK_QUEUE }), runbook, { ...place, ...snapshots });
  }

  async startWorker(env: Record<string, string> = {}): Promise<void> {
    const upstream = { UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: sandbox.apiKey };
    this.worker = startWorkerProcess({ ...this.#env, ...upstream, ...env });
    closed.push(() => this.worker.kill());
    await this.worker.wrote('The worker runs');
  }

  /** A worker that asks before each write that is requested within the time of the page. */
  async startAskingWorker(): Promise<void> {
    await this.startWorker({ [SETTING]: await this.runbook.variable(SETTING, `export ${SETTING}`) });
  }

  start(key: string) {
    const polling = { min: '1 second', max: '1 second' };
    return this.jobs.start({ projectId: key, key, prompt: promptOf(key), polling, settle: 0 });
  }

  handle(key: string) {
    return this.jobs.handle({ projectId: key, key });
  }

  async accepted(key: string): Promise<string> {
    await until(async () => (await this.handle(key).state()).jobId !== null, `the job of ${key}`);
    return (await this.handle(key).state()).jobId!;
  }

  async sent(key: string, id: string): Promise<void> {
    await this.handle(key).followUp(promptOf(key), { id });
    const fate = async () => (await this.handle(key).state()).followUps.find((each) => each.id === id)?.state;
    await until(async () => (await fate()) === 'sent', `${id} to be sent`);
    await this.worker.wrote(`"followUpId":"${id}"`);
  }

  async endOf(key: string): Promise<string> {
    const [job] = await jobsOf(key);
    await sandbox.setJob({ id: job!.id, status: 'completed' });
    return (await this.handle(key).result()).outcome;
  }

  /** Repeats the block that resolves by the logs until each of these has its job, and no write asks. */
  async resolveByLogs(log: () => string, keys: readonly string[]): Promise<void> {
    const isDone = async () => {
      this.runbook.write('workers.log', log());
      await this.runbook.run('workers.log', { mayEndWith: [1] });
      const states = await Promise.all(keys.map((key) => this.handle(key).state()));
      const areSent = states.every(({ followUps }) => followUps.every(({ state }) => state === 'sent'));
      return areSent && states.every(({ jobId, unknown }) => jobId !== null && unknown === null);
    };
    await until(isDone, 'all to be resolved');
  }
}

const promptOf = (key: string) => `[${key}] Fix it`;
const jobsOf = (key: string) => sandbox.creates({ promptIncludes: promptOf(key) });

test('after a forced fail-over, what the old region lost or went on to send is found by its logs', async (context) => {
  await needToolchain(context, 'jq');
  const old = await Site.open(server.address, server.namespace);
  await old.startWorker();
  await old.start('replicated');
  const jobId = await old.accepted('replicated');
  await server.backUp();
  // The standby knows nothing of this: it was under way when the region was given up, or came after it.
  await old.start('lagging');
  await old.accepted('lagging');
  await old.sent('replicated', 'in-lag');
  const standby = await server.standby();
  closed.push(() => standby.close());
  await old.start('after');
  await old.accepted('after');
  await old.worker.wrote('"workflowId":"agent-job/after/after"');
  await old.worker.kill();

  const other = await Site.open(standby.address, standby.namespace);
  await other.startAskingWorker();
  for (const key of ['replicated', 'lagging', 'after']) await other.start(key);
  await other.handle('replicated').followUp(promptOf('replicated'), { id: 'in-lag' });
  const asking = async () => (await other.handle('replicated').state()).unknown;
  await expect.poll(asking).toMatchObject({ followUpId: 'in-lag' });
  await other.resolveByLogs(() => old.worker.output() + other.worker.output(), ['replicated', 'lagging', 'after']);
  for (const key of ['replicated', 'lagging', 'after']) expect(await other.endOf(key)).toBe('completed');
  for (const key of ['replicated', 'lagging', 'after']) expect([key, (await jobsOf(key)).length]).toEqual([key, 1]);
  expect(await sandbox.messages({ jobId })).toHaveLength(1);
}, 480_000);

test('lost snapshots are listed and exported anew; a lost namespace is rebuilt from logs', async (context) => {
  await needToolchain(context, 'jq');
  const site = await Site.open(server.address, 'lost');
  const { runbook } = site;
  await runbook.run('operator namespace create');
  await expect.poll(() => runbook.run('agent-jobs setup').catch(() => null), PATIENCE).not.toBeNull();
  await site.startWorker();
  const now = Date.now(); // whatever midnight the test may cross
  const daysAgo = (days: number) => new Date(now - days * 86_400_000).toISOString().slice(0, 10);
  const run = (project: string, ...words: string[]) =>
    runbook.shell(`agent-jobs export run --project ${project} ${words.join(' ')} --json`);
  const before = await run('my-project', '--day', daysAgo(4));
  await run('my-project', '--from', '2026-01-01', '--to', '2026-01-08');
  await rm(join(runbook.folder, 'snapshots'), { recursive: true });

  const lost = await runbook.run('agent-jobs export gaps', { mayEndWith: [1] });
  expect(lost).toContain(`${daysAgo(4)}  missing\n`);
  expect(lost).toContain('visitor-export/my-project/2026-01-01..2026-01-08');
  const recovered = await runbook.run('agent-jobs export backfill');
  expect(recovered).toMatch(/^[78] days exported, 0 failed$/m);
  expect(recovered).toMatch(/^[89] snapshots verified, 0 with differences$/m);
  const idOf = (told: string) => (JSON.parse(told) as { snapshots: { snapshotId: string }[] }).snapshots[0]?.snapshotId;
  expect(idOf(await run('my-project', '--day', daysAgo(4)))).toBe(idOf(before));

  for (const key of ['open', 'over']) await site.start(key);
  for (const key of ['open', 'over']) await site.accepted(key);
  await site.sent('open', 'before');
  expect(await site.endOf('over')).toBe('completed');
  await site.worker.wrote('"outcome":"completed"');
  await runbook.shell('temporal operator namespace delete --namespace lost --yes');
  site.worker.signal('SIGTERM');
  await site.worker.ended;
  const log = site.worker.output();

  await expect.poll(() => runbook.run('operator namespace create').catch(() => null), PATIENCE).not.toBeNull();
  await expect.poll(() => runbook.run('agent-jobs setup').catch(() => null), PATIENCE).not.toBeNull();
  await site.startAskingWorker();
  await site.start('open');
  await site.handle('open').followUp(promptOf('open'), { id: 'before' });
  await site.resolveByLogs(() => log + site.worker.output(), ['open', 'over']);
  expect((await site.handle('over').result()).outcome).toBe('completed');
  await expect(site.start('over')).rejects.toThrow('names a job with another input');
  expect(await site.endOf('open')).toBe('completed');
  for (const key of ['open', 'over']) expect([key, (await jobsOf(key)).length]).toEqual([key, 1]);
  expect(await sandbox.messages({ jobId: (await jobsOf('open'))[0]!.id })).toHaveLength(1);
  // The server may be slow to look after the Schedules of a namespace that was made anew, as the page says.
  await expect.poll(() => runbook.run('agent-jobs schedule set'), PATIENCE).toContain('visitor-export/my-project');
  expect(runbook.left.toSorted()).toEqual(RUN_ELSEWHERE);
}, 480_000);
