/** A proxy that cuts long calls leaves a worker ready, and useless: `/readyz` and `doctor` say so. */
import { describe, expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { arePollsCut } from '../../src/temporal/heartbeats.js';
import { jsonLines } from '../cli/run-cli.js';
import { runInProcess } from '../cli/run-in-process.js';
import { useSystem } from '../e2e/system.js';
import { startCuttingProxy } from '../support/cutting-proxy.js';

const MOST_MS = 300_000;
const CUT = 'long calls to Temporal are cut before their answer, again and again';
const system = useSystem();

test('calls that are cut again and again are told, and the status stays', async () => {
  const proxy = await startCuttingProxy(system.server.address, 5_000);
  const start = async (env: Record<string, string> = {}) => {
    const HEALTH_ADDRESS = `127.0.0.1:${await freePort()}`;
    const worker = system.startWorker({ HEALTH_ADDRESS, ...env });
    await worker.wrote('The worker runs');
    return async () => {
      const answer = await fetch(`http://${HEALTH_ADDRESS}/readyz`);
      return { status: answer.status, body: (await answer.json()) as object };
    };
  };
  const other = { AGENT_JOBS_TASK_QUEUE: `${system.server.taskQueue}-other` };
  const behindProxy = await start({ TEMPORAL_ADDRESS: proxy.address });
  const direct = await start(other);
  const told = { status: 200, body: { ready: true, cutCalls: expect.stringContaining(CUT) as string } };
  await expect.poll(behindProxy, { timeout: MOST_MS, interval: 1_000 }).toEqual(told);
  expect(proxy.cut()).toBeGreaterThan(10);
  const doctor = async (env: Record<string, string>) => {
    const { stdout } = await runInProcess(['doctor', '--json'], { env: { ...system.clientEnv(), ...env } });
    return jsonLines(stdout).find(({ check }) => check === 'Worker');
  };
  expect(await doctor({})).toMatchObject({ status: 'warn', text: expect.stringContaining(CUT) as string });
  // One without a proxy has waited for as long, and its polls ended by themselves.
  expect(await direct()).toEqual({ status: 200, body: { ready: true } });
  expect(await doctor(other)).toMatchObject({ status: 'ok' });
  proxy.close();
});

describe('by what a worker reports', () => {
  const at = (seconds: number) => ({ seconds: seconds as never, nanos: 0 });
  const poll = (seconds: number) => ({ currentPollers: 5, isAutoscaling: true, lastSuccessfulPollTime: at(seconds) });
  const running = { status: 1, startTime: at(1_000) };

  test.for([
    ['it started lately', false, { ...running, heartbeatTime: at(1_090) }],
    ['no poll ended since it started', true, { ...running, heartbeatTime: at(1_120) }],
    ['one ended lately', false, { ...running, heartbeatTime: at(1_500), workflowPollerInfo: poll(1_440) }],
    ['one of any kind did', false, { ...running, heartbeatTime: at(1_500), activityPollerInfo: poll(1_440) }],
    ['none did lately', true, { ...running, heartbeatTime: at(1_500), workflowPollerInfo: poll(1_300) }],
    ['it reports nothing of the kind', false, {}],
  ] as const)('%s: cut is %s', ([, isCut, report]) => {
    expect(arePollsCut(report)).toBe(isCut);
  });
});
