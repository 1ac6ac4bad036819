/**
 * Services bring a Temporal client of their own, of whatever release they are at: here the oldest. With the newest,
 * which is this repository's, worker-package.test.ts tells the story.
 */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { useSystem } from '../e2e/system.js';
import { compile, compilerOf, install, pack, runProgram } from './consumer.js';

const MAX_PACKAGES = 60;
const MAX_MIB = 50;

const system = useSystem({ script: { activeMs: 1_500 } });
const STORY = `
import { Client, Connection } from '@temporalio/client';
import { AgentJobs, KeyConflictError } from 'agent-jobs-client';

const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, AGENT_JOBS_TASK_QUEUE, KEY = '' } = process.env;
const connection = await Connection.connect({ address: TEMPORAL_ADDRESS! });
const client = new Client({ connection, namespace: TEMPORAL_NAMESPACE! });
const jobs = new AgentJobs({ client, taskQueue: AGENT_JOBS_TASK_QUEUE });
const told: unknown[] = [];
const request = { key: KEY, projectId: 'minors', prompt: 'Do it', settle: 0 };

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

test('an own client of the oldest release works with a job, and little is installed with it', async () => {
  const packages = ['@temporalio/client@1.13', '@temporalio/common@1.13', '@types/node@20'];
  const folder = await install([await pack('agent-jobs-client'), ...packages]);
  await writeFile(join(folder, 'story.mts'), STORY);
  // Its types are checked, and it becomes JavaScript, against this release.
  const options = { module: 'nodenext', types: ['node'] };
  expect(await compile(folder, await compilerOf(null), options)).toEqual([]);
  await system.haveWorker();
  const env = { ...system.clientEnv(), KEY: `minor-1.13-${Date.now()}` };
  expect(JSON.parse(await runProgram(folder, 'story.mjs', env))).toEqual(TOLD);

  const lock = await readFile(join(folder, 'package-lock.json'), 'utf8');
  const { packages: installed } = JSON.parse(lock) as { packages: object };
  // The first is the folder itself.
  expect(Object.keys(installed).length - 1).toBeLessThanOrEqual(MAX_PACKAGES);
  const { stdout } = await promisify(execFile)('du', ['-sm', join(folder, 'node_modules')]);
  expect(Number.parseInt(stdout)).toBeLessThanOrEqual(MAX_MIB);
});
