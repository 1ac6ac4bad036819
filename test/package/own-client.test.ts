/** Services bring a Temporal client of their own, of whatever release they are at. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { useSystem } from '../e2e/system.js';
import { compile, compilerOf, install, pack, runProgram } from './consumer.js';

const LIMIT_MS = 240_000;
const MAX_PACKAGES = 60;
const MAX_MIB = 50;

const system = useSystem({ script: { activeMs: 1_500 } });
let tarball: string;
beforeAll(async () => {
  tarball = await pack('agent-jobs-client');
});
beforeEach(() => {
  system.startWorker();
});

const STORY = `
import { Client, Connection } from '@temporalio/client';
import { AgentJobs, KeyConflictError } from 'agent-jobs-client';

const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, AGENT_JOBS_TASK_QUEUE, KEY = '' } = process.env;
const connection = await Connection.connect({ address: TEMPORAL_ADDRESS! });
const client = new Client({ connection, namespace: TEMPORAL_NAMESPACE! });
const jobs = new AgentJobs({ client, taskQueue: AGENT_JOBS_TASK_QUEUE });
const told: unknown[] = [];
const request = { key: KEY, projectId: 'minors', prompt: 'Do it' };

const job = await jobs.start(request);
told.push(job.isNew, (await jobs.start(request)).isNew);
await jobs.start({ ...request, prompt: 'Other' }).catch((error) => told.push(error instanceof KeyConflictError));
told.push((await job.sendFollowUp('And a test', { id: 'a' })).state);
told.push((await job.state()).projectId, (await job.result()).outcome);
told.push((await job.sendFollowUp('And a test', { id: 'a' })).state);
told.push((await job.sendFollowUp('And more', { id: 'b' })).state);
const again = await job.result();
const seen: string[] = [];
for await (const { phase } of job.watch()) seen.push(phase);
told.push(seen, job.runId !== null, again.outcome, again.followUps.map(({ id }) => id), again.usedFollowUpIds);
await jobs.handle('agent-job/minors/none').state().catch((error) => told.push(error.name));
console.log(JSON.stringify(told));
await connection.close();
`;

const TOLD = [
  ...[true, false, true, 'sent', 'minors', 'completed', 'sent', 'sent', ['done'], true, 'completed', ['b'], ['a', 'b']],
  'JobNotFoundError',
];

// The oldest and the newest that it supports.
test.each(['1.13', '1.24'])(
  'an own client of @temporalio/client %s starts, steers and awaits a job, and follows up after its end',
  { timeout: LIMIT_MS },
  async (minor) => {
    const packages = [`@temporalio/client@${minor}`, `@temporalio/common@${minor}`, '@types/node@20'];
    const folder = await install([tarball, ...packages]);
    await writeFile(join(folder, 'story.mts'), STORY);
    // Its types are checked, and it becomes JavaScript, against this release.
    const options = { module: 'nodenext', types: ['node'] };
    expect(await compile(folder, await compilerOf(null), options)).toEqual([]);
    const env = { ...system.clientEnv(), KEY: `minor-${minor}-${Date.now()}` };
    expect(JSON.parse(await runProgram(folder, 'story.mjs', env))).toEqual(TOLD);
  },
);

test('npm installs little with it', { timeout: LIMIT_MS }, async () => {
  const folder = await install([tarball]);
  const { packages } = JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8')) as { packages: object };
  // The first is the folder itself.
  expect(Object.keys(packages).length - 1).toBeLessThanOrEqual(MAX_PACKAGES);
  const { stdout } = await promisify(execFile)('du', ['-sm', join(folder, 'node_modules')]);
  expect(Number.parseInt(stdout)).toBeLessThanOrEqual(MAX_MIB);
});
