import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, jobStateQuery, type AgentJobInput, type AgentJobResult } from '../../src/contract.js';
import { freePort } from '../../src/local/child-process.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';
import { newFolder } from '../support/folder.js';

const JOBS = 10;
const WRONG = 'a-key-that-was-never-right';

const system = useSystem({ script: { activeMs: 0 } });
const folder = newFolder();

async function writeKey(key: string): Promise<string> {
  const path = join(folder, 'key');
  await writeFile(`${path}.new`, key);
  await rename(`${path}.new`, path);
  return path;
}

async function get(port: number, path: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, body: await response.text() };
}

test('a wrong key is shown by health, metrics and log, and costs a wait, over a worker’s death too', async () => {
  const { sandbox, server } = system;
  const healthPort = await freePort();
  const metricsPort = await freePort(undefined, [healthPort]);
  const env = {
    ADMIN_API_KEY: '',
    ADMIN_API_KEY_FILE: await writeKey(WRONG),
    HEALTH_ADDRESS: `127.0.0.1:${healthPort}`,
    METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
  };
  const first = system.startWorker(env);
  const handles = await Promise.all(
    Array.from({ length: JOBS }, (_, i) => {
      const input: AgentJobInput = { projectId: 'wrong-key', prompt: `prompt ${i}` };
      const workflowId = `agent-job/wrong-key/${i}`;
      return server.client.workflow.start<(input: AgentJobInput) => Promise<AgentJobResult>>(AGENT_JOB_WORKFLOW, {
        workflowId,
        taskQueue: server.taskQueue,
        args: [input],
      });
    }),
  );
  const allWait = async () => {
    const states = await Promise.all(handles.map((handle) => handle.query(jobStateQuery)));
    return states.every(({ waiting }) => waiting?.for === 'key');
  };
  await until(allWait, 'all jobs to wait for a key', first.output);
  const ready = await get(healthPort, '/readyz');
  expect([ready.status, JSON.parse(ready.body)]).toEqual([200, { ready: true, refusedKeys: ['wrong-key'] }]);
  const { body: metrics } = await get(metricsPort, '/metrics');
  expect(metrics).toMatch(/^agent_jobs_key_refusals_total{[^}]*operation="create"[^}]*} \d+$/m);
  await first.wrote('The key of this project is refused');
  expect(first.output().match(/The key of this project is refused/g)).toHaveLength(1);

  await first.kill();
  const second = system.startWorker(env);
  await second.wrote('The key of this project is refused');
  await writeKey(sandbox.apiKey);
  for (const handle of handles) expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  const prompts = (await sandbox.creates({ projectId: 'wrong-key' })).map(({ prompt }) => prompt);
  expect(prompts.toSorted()).toEqual(Array.from({ length: JOBS }, (_, i) => `prompt ${i}`).toSorted());
  await second.wrote('Writes of this project are accepted again');
  expect(second.output().match(/Writes of this project are accepted again/g)).toHaveLength(1);
  const after = await get(healthPort, '/readyz');
  expect([after.status, JSON.parse(after.body)]).toEqual([200, { ready: true }]);
  expect(first.output() + second.output()).not.toContain(WRONG);
});
