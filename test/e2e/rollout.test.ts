/** A roll-out and its reverse with production workers, by the commands of docs/operations.md. */
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { AgentJobs } from '../../src/starter.js';
import { jsonLines } from '../cli/run-cli.js';
import { runInProcess } from '../cli/run-in-process.js';
import { parseExposition } from '../monitoring/promql.js';
import { failedTasks } from '../support/failed-tasks.js';
import { Runbook } from '../support/runbook.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';
import { newFolder } from '../support/folder.js';

const PAGE = 'docs/operations.md';
const MAX_MS = 300_000;
const JOBS = 5;
const system = useSystem({ script: { activeMs: 100_000_000 } });

/** A Worker Deployment, rolled out by the commands of the page. */
class RollOut {
  readonly #runbook: Runbook;

  private constructor(runbook: Runbook) {
    this.#runbook = runbook;
  }

  static async of(deployment: string): Promise<RollOut> {
    return new RollOut(await Runbook.open(PAGE, { ...system.clientEnv(), WORKER_DEPLOYMENT: deployment }));
  }

  /** Makes a version current, and ends when no open run is on the old one. */
  async to(version: string, { from = 'none' } = {}): Promise<void> {
    this.#runbook.set({ NEW: version, OLD: from });
    const run = () => this.#runbook.run('set-current-version --yes').then(() => true, isNoWorkerYet);
    await until(run, `${version} to be current`, () => '', MAX_MS);
  }

  /** The build ids, the newest first, once there are `count`. */
  async versions(count: number): Promise<string[]> {
    const describe = 'temporal worker deployment describe --name "$WORKER_DEPLOYMENT" --output json';
    let found: string[] = [];
    await until(async () => {
      const { versionSummaries } = JSON.parse(await this.#runbook.shell(describe)) as {
        versionSummaries: { BuildID: string }[];
      };
      found = versionSummaries.map(({ BuildID }) => BuildID);
      return found.length === count;
    }, `${count} versions`);
    return found;
  }

  /** Waits until `count` runs are pinned to a version: the list is late. */
  async hasOpenRuns(version: string, count: number): Promise<void> {
    await until(
      async () => (await this.#openRuns(version)) === count,
      `${count} runs of ${version}`,
      () => '',
      MAX_MS,
    );
  }

  async #openRuns(version: string): Promise<number> {
    const ofVersion = `TemporalWorkerDeploymentVersion = '$WORKER_DEPLOYMENT:${version}'`;
    const query = `${ofVersion} AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'`;
    const told = await this.#runbook.shell(`temporal workflow count --query "${query}"`);
    return Number(told.replace('Total: ', ''));
  }
}

/** The server does not know the version yet, or no workers of it for all task queues. */
function isNoWorkerYet(error: Error): boolean {
  if (!/^Error: error .*deployment/im.test(error.message)) throw error;
  return false;
}

/** The workflow tasks that failed in any run of a project, of the product's own types. */
async function failedTasksOf(projectId: string) {
  const { workflow } = system.server.client;
  const failed = [];
  for await (const { workflowId, runId } of workflow.list({ query: `AgentJobProject = '${projectId}'` }))
    failed.push(...failedTasks((await workflow.getHandle(workflowId, runId).fetchHistory()).events));
  return failed;
}

/** What `doctor` says of the workers. */
async function checkOfWorkers(): Promise<unknown> {
  const { stdout } = await runInProcess(['doctor', '--json'], { env: system.clientEnv() });
  return jsonLines(stdout).find(({ check }) => check === 'Worker');
}

/** The jobs that are watched on each version, as a worker counts them once a minute. */
async function watchedOf(metricsAddress: string): Promise<Record<string, number>> {
  const samples = parseExposition(await (await fetch(`http://${metricsAddress}/metrics`)).text());
  const open = samples.filter(({ metric, labels }) => metric === 'agent_jobs_open' && labels['phase'] === 'watching');
  return Object.fromEntries(open.map(({ labels, value }) => [labels['version'], value]));
}

test(
  'a version is made current, the one before drains, its workers go, and back: jobs and exports go on',
  { timeout: 2 * MAX_MS },
  async () => {
    const { server, sandbox } = system;
    const deployment = `rollout-${randomUUID()}`;
    const folder = newFolder();
    const settings = { WORKER_DEPLOYMENT: deployment, SNAPSHOTS_URL: pathToFileURL(folder).href };
    const rollOut = await RollOut.of(deployment);
    const METRICS_ADDRESS = `127.0.0.1:${await freePort()}`;
    const first = system.startWorker({ ...settings, WORKER_BUILD_ID: '1.0.0', METRICS_ADDRESS });
    await rollOut.to('1.0.0');
    expect(await checkOfWorkers()).toMatchObject({ status: 'ok', remedy: [] });

    const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
    const polling = { min: '1 hour', max: '1 hour' };
    const request = (key: number) => ({ key: `${key}`, projectId: deployment, prompt: 'Say hello', polling });
    const handles = await Promise.all(Array.from({ length: JOBS }, (_, key) => jobs.start(request(key))));
    for (const handle of handles)
      await until(async () => (await handle.state()).phase === 'watching', 'a job to be watched', first.output, MAX_MS);
    // The version of this release, which no setting names.
    const second = system.startWorker(settings);
    const [release = ''] = await rollOut.versions(2);
    expect(release).toMatch(/^\d+\.\d+\.\d+-[0-9a-f]{12}$/);
    await rollOut.to(release, { from: '1.0.0' });
    await rollOut.hasOpenRuns(release, JOBS);
    expect(first.output()).toContain('Another version of the workers is current');
    expect(await checkOfWorkers()).toMatchObject({
      status: 'warn',
      text: expect.stringMatching(new RegExp(`^2 workers poll .*\nno open run is on ${deployment}:1\\.0\\.0$`)),
      remedy: ['its workers can go: see docs/operations.md'],
    });
    const watchedJobs = { '1.0.0': 0, [release]: JOBS };
    await expect.poll(() => watchedOf(METRICS_ADDRESS), { timeout: MAX_MS }).toMatchObject(watchedJobs);

    // Back again; 1.0.0 still polls.
    await rollOut.to('1.0.0', { from: release });
    await rollOut.hasOpenRuns('1.0.0', JOBS);
    second.signal('SIGTERM');
    expect(await second.ended).toBe(0);

    for (const handle of handles) {
      await handle.followUp('And a test', { id: 'one' });
      await until(
        async () => (await handle.state()).followUps[0]?.state === 'sent',
        'the follow-up',
        first.output,
        MAX_MS,
      );
    }
    expect(await sandbox.creates({ projectId: deployment, promptIncludes: 'Say hello' })).toHaveLength(JOBS);
    const range = { projectId: deployment, dateFrom: '2026-01-01', dateTo: '2026-01-02' };
    const { snapshots } = await (await jobs.exportVisitors(range)).result();
    expect(snapshots).toHaveLength(1);
    expect(await failedTasksOf(deployment)).toEqual([]);
    for (const handle of handles) await handle.cancel();
  },
);
