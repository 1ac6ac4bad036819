import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { followUpSignal } from '../../src/contract.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { runCli } from '../cli/run-cli.js';
import { startCollector, type Collector } from '../support/collector.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startWorkerProcess, until, type WorkerProcess } from '../support/worker-process.js';

const [TRACE, SPAN] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
const KEY_OF_COLLECTOR = 'a-key-of-the-collector';

let server: TestServer;
let sandbox: Sandbox;
let collector: Collector;
const workers: WorkerProcess[] = [];

beforeAll(async () => {
  server = await connectDevServer();
  const end = [{ status: 'active' }, { afterMs: 500, status: 'completed' }] as const;
  sandbox = await startSandbox({ script: { activeMs: 600_000, followUp: [...end] } });
  collector = await startCollector();
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.kill();
});
afterAll(async () => {
  await collector.close();
  await sandbox.close();
  await server.close();
});

const place = () => ({
  TEMPORAL_ADDRESS: server.address,
  TEMPORAL_NAMESPACE: server.namespace,
  AGENT_JOBS_TASK_QUEUE: server.taskQueue,
});

const tracing = (url = collector.url) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_EXPORTER_OTLP_HEADERS: `authorization=${KEY_OF_COLLECTOR}`,
  OTEL_BSP_SCHEDULE_DELAY: '50',
});

function startWorker(env: Record<string, string>): WorkerProcess {
  const worker = startWorkerProcess({
    ...place(),
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    ...env,
  });
  workers.push(worker);
  return worker;
}

const names = () => collector.spans.map(({ name }) => name).toSorted();

test(
  'a job that two workers and two commands work at is one trace, whose spans are each sent once',
  { timeout: 240_000 },
  async () => {
    const first = startWorker(tracing());
    const env = { ...place(), ...tracing(), TRACEPARENT: `00-${TRACE}-${SPAN}-01` };
    const polling = ['--poll-min', '1s', '--poll-max', '1s'];
    const started = await runCli(['start', 'Mend it', '--project', 'traced', ...polling, '--json'], { env });
    expect(started).toMatchObject({ code: 0, stderr: '' });
    const { workflowId } = JSON.parse(started.stdout) as { workflowId: string };
    const takenUp = ['RunWorkflow:agentJob', 'StartWorkflow:agentJob', 'create'];
    await until(() => names().length === takenUp.length, 'the job to be created', first.output);
    expect(names()).toEqual(takenUp);
    await first.wrote('The upstream took a write');
    await first.kill();
    const second = startWorker(tracing());
    const followedUp = await runCli(['follow-up', workflowId, 'And that', '--json'], {
      env: { ...env, TRACEPARENT: '' },
    });
    expect(followedUp).toMatchObject({ code: 0, stderr: '' });
    await server.client.workflow.getHandle(workflowId).result();
    const all = ['CompleteWorkflow:agentJob', ...takenUp, 'SignalWorkflow:followUp', 'followUp'].toSorted();
    await until(() => names().length >= all.length, 'the end to be traced', second.output);
    await second.wrote('The job has ended');
    expect(names()).toEqual(all);
    const named = (name: string) => collector.spans.find((span) => span.name === name)!;
    const [start, run, sender] = [takenUp[1]!, takenUp[0]!, 'SignalWorkflow:followUp'].map(named);
    expect(start).toMatchObject({ service: 'agent-jobs', traceId: TRACE, parentSpanId: SPAN, error: null });
    expect(run).toMatchObject({ service: 'agent-jobs-worker', traceId: TRACE, parentSpanId: start!.spanId });
    for (const name of ['create', 'followUp', 'CompleteWorkflow:agentJob']) {
      expect(named(name)).toMatchObject({ traceId: TRACE, parentSpanId: run!.spanId, error: null });
    }
    expect(named('followUp').links).toEqual([{ traceId: sender!.traceId, spanId: sender!.spanId }]);
    const lines = [first, second]
      .flatMap((worker) => worker.output().split('\n'))
      .filter((line) => line.includes(workflowId));
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ trace_id: TRACE });
    expect(first.output() + second.output()).not.toContain(KEY_OF_COLLECTOR);
  },
);

test('with a collector that is away a job and its worker end as ever, and a line tells of it', async () => {
  const away = { ...tracing('http://127.0.0.1:9'), OTEL_EXPORTER_OTLP_TIMEOUT: '300' };
  const worker = startWorker(away);
  const env = { ...place(), ...away };
  const { code, stdout } = await runCli(['start', 'Mend it', '--project', 'away', '--json'], { env });
  expect(code).toBe(0);
  const { workflowId } = JSON.parse(stdout) as { workflowId: string };
  const told = await runCli(['state', workflowId, '--json'], { env: { ...env, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' } });
  expect(told).toMatchObject({ code: 0, stderr: expect.stringContaining('should be http/protobuf') });
  const handle = server.client.workflow.getHandle(workflowId);
  await handle.signal(followUpSignal, { prompt: 'And that' });
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  await worker.wrote('Spans could not be exported');
  worker.signal('SIGTERM');
  expect(await worker.ended).toBe(0);
});
