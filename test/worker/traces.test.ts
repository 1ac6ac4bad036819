import { randomUUID } from 'node:crypto';
import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { followUpSignal, pollNowSignal, sendFollowUpUpdate } from '../../src/contract.js';
import { AgentJobs } from '../../src/starter.js';
import { traceCalls, Tracer } from '../../src/temporal/tracer.js';
import { openTraces, type Traces } from '../../src/worker/traces.js';
import { startCollector, type Collector, type ReceivedSpan } from '../support/collector.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import type { DevServer } from '../../src/local/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { inDoubt } from '../support/outcomes.js';
import { gate, ObservedUpstream } from '../support/observed-upstream.js';

const [CALLER_TRACE, CALLER_SPAN] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
const CALLER = { traceparent: `00-${CALLER_TRACE}-${CALLER_SPAN}-01`, tracestate: 'vendor=1' };
const [SENDER_TRACE, SENDER_SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const SENDER = { traceparent: `00-${SENDER_TRACE}-${SENDER_SPAN}-01` };
const SETTINGS = { OTEL_BSP_SCHEDULE_DELAY: '20' };

let devServer: DevServer;
let server: TestServer;
let collector: Collector;
let upstream: ObservedUpstream;
let traces: Traces;
let bench: JobBench;

beforeAll(async () => {
  const dynamicConfig = {
    'history.timerProcessorMaxTimeShift': '"50ms"',
    'limit.historyCount.suggestContinueAsNew': '40',
  };
  devServer = await startPrivateDevServer({ dynamicConfig });
  server = await connectTo(devServer);
});
afterAll(async () => {
  await server.close();
  await devServer.stop();
});
beforeEach(async () => {
  Object.assign(process.env, SETTINGS);
  collector = await startCollector();
  upstream = new ObservedUpstream();
});
afterEach(async () => {
  await bench.stop();
  await traces.end();
  await collector.close();
  for (const name of Object.keys(process.env)) if (name.startsWith('OTEL_')) delete process.env[name];
});

/** A worker with traces that go to this address; off without one. */
async function startWorker(url?: string): Promise<void> {
  if (url !== undefined) process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = url;
  traces = await openTraces({
    tracing: url !== undefined,
    namespace: server.namespace,
    log: pino({ level: 'silent' }),
  });
  bench = await startJobBench(server, upstream, { worker: { sinks: traces.sinks, debugMode: false } });
}

/** A client that sends this header with every call, as Temporal's interceptors do. */
function clientWith(payload: Payload): Client {
  const headers = { '_tracer-data': payload };
  const interceptor: WorkflowClientInterceptor = {
    start: (input, next) => next({ ...input, headers }),
    signal: (input, next) => next({ ...input, headers }),
    startUpdate: (input, next) => next({ ...input, headers }),
  };
  const { connection, namespace } = server.client.options as unknown as { connection: never; namespace: string };
  return new Client({ connection, namespace, interceptors: { workflow: [interceptor] } });
}

const json = (value: unknown) => defaultPayloadConverter.toPayload(value)!;

function start(client: Client, options: object = {}) {
  return client.workflow.start('agentJob', {
    taskQueue: bench.taskQueue,
    workflowId: `agent-job/traces/${randomUUID()}`,
    args: [{ projectId: 'traces', prompt: 'Mend the secret word', settle: 0, ...options }],
  });
}

const spansOf = (workflowId: string) =>
  collector.spans.filter(({ attributes }) => attributes['temporalWorkflowID'] === workflowId);
const namesOf = (workflowId: string) => spansOf(workflowId).map(({ name }) => name);
const END = 'CompleteWorkflow:agentJob';
const untilEnd = (workflowId: string) => expect.poll(() => namesOf(workflowId)).toContain(END);

/** The first span, and the others, which are all its children. */
function treeOf(workflowId: string): { root: ReceivedSpan; children: ReceivedSpan[] } {
  const spans = spansOf(workflowId);
  const roots = spans.filter(({ name }) => name === 'RunWorkflow:agentJob');
  expect(roots).toHaveLength(1);
  const children = spans.filter((span) => span !== roots[0]);
  for (const span of children) {
    expect(span).toMatchObject({ traceId: roots[0]!.traceId, parentSpanId: roots[0]!.spanId });
  }
  expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
  return { root: roots[0]!, children };
}

test('a job is one trace below its caller: its start, its create, each follow-up, its end, and no poll', async () => {
  await startWorker(collector.url);
  upstream.show = () => ({ status: upstream.messages.length >= 2 && upstream.reads >= 5 ? 'completed' : 'active' });
  const handle = await start(clientWith(json(CALLER)), { polling: { min: 1_000, max: 1_000 } });
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  const sender = clientWith(json(SENDER)).workflow.getHandle(handle.workflowId);
  await sender.signal(followUpSignal, { prompt: 'one', id: 'first' });
  await server.client.workflow
    .getHandle(handle.workflowId)
    .executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'two', id: 'second' }] });
  while (upstream.reads < 5) {
    // The poll that ends the job may have come by itself meanwhile.
    await handle.signal(pollNowSignal).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  await handle.result();
  await untilEnd(handle.workflowId);
  const { root, children } = treeOf(handle.workflowId);
  expect(root).toMatchObject({ traceId: CALLER_TRACE, parentSpanId: CALLER_SPAN, service: 'agent-jobs-worker' });
  const shown = children.map(({ name, error, attributes, links }) => {
    return { name, error, outcome: attributes['agent_jobs.outcome'], links };
  });
  const links = [{ traceId: SENDER_TRACE, spanId: SENDER_SPAN }];
  expect(shown).toEqual([
    { name: 'create', error: null, outcome: 'created', links: [] },
    { name: 'followUp', error: null, outcome: 'sent', links },
    { name: 'followUp', error: null, outcome: 'sent', links: [] },
    { name: END, error: null, outcome: 'completed', links: [] },
  ]);
  expect(children[1]!.attributes).toMatchObject({ 'agent_jobs.follow_up_id': 'first', 'agent_jobs.job_id': 'job-1' });
  expect(children[3]!.startedAt).toBe(root.startedAt);
  expect(JSON.stringify(collector.spans)).not.toContain('secret');
});

test('a trace goes on over continue-as-new, with one start and one end, and the sender of what waits', async () => {
  await startWorker(collector.url);
  const count = 18;
  upstream.show = () => ({ status: upstream.messages.length >= count ? 'completed' : 'active' });
  const handle = await start(clientWith(json(CALLER)));
  const sender = clientWith(json(SENDER)).workflow.getHandle(handle.workflowId);
  for (let i = 0; i < count; i++) await sender.signal(followUpSignal, { prompt: `${i}`, id: `f${i}` });
  await server.client.workflow.getHandle(handle.workflowId).result();
  await untilEnd(handle.workflowId);
  const { runId } = await server.client.workflow.getHandle(handle.workflowId).describe();
  expect(runId).not.toBe(handle.firstExecutionRunId);
  const { root, children } = treeOf(handle.workflowId);
  expect(root.traceId).toBe(CALLER_TRACE);
  expect(children.map(({ name }) => name)).toEqual(['create', ...Array<string>(count).fill('followUp'), END]);
  for (const { name, links } of children) expect(links).toHaveLength(name === 'followUp' ? 1 : 0);
});

test('a follow-up to an ended job is in the trace of whoever sent it, by one span for start and send', async () => {
  await startWorker(collector.url);
  const { workflowId } = await start(clientWith(json(CALLER)));
  await server.client.workflow.getHandle(workflowId).result();
  await untilEnd(workflowId);
  const tracer = new Tracer({ serviceName: 'caller', version: '1', onProblem: () => {} });
  const { connection, namespace } = server.client.options as unknown as { connection: never; namespace: string };
  const client = new Client({ connection, namespace, interceptors: { workflow: [traceCalls(tracer, SENDER)] } });
  const jobs = new AgentJobs({ client, taskQueue: bench.taskQueue });
  await jobs.handle(workflowId).sendFollowUp('And that', { id: 'later' });
  await jobs.handle(workflowId).result();
  await tracer.end(5_000);
  const later = () => spansOf(workflowId).filter(({ traceId }) => traceId === SENDER_TRACE);
  await expect.poll(() => later().map(({ name }) => name)).toContain(END);
  const [call, run, followUp] = ['UpdateWithStartWorkflow:sendFollowUp', 'RunWorkflow:agentJob', 'followUp'].map(
    (name) => later().filter((span) => span.name === name),
  );
  expect(call).toEqual([expect.objectContaining({ service: 'caller', parentSpanId: SENDER_SPAN, error: null })]);
  expect(run).toEqual([expect.objectContaining({ parentSpanId: call![0]!.spanId })]);
  expect(followUp).toEqual([
    expect.objectContaining({
      parentSpanId: run![0]!.spanId,
      links: [{ traceId: SENDER_TRACE, spanId: call![0]!.spanId }],
    }),
  ]);
});

test('what ended otherwise says so: a create in doubt, a follow-up that was never sent, a wrong input', async () => {
  await startWorker(collector.url);
  upstream.createFaults.push(inDoubt('upstream answered 500'));
  const { opened, open } = gate();
  upstream.createGate = opened;
  const unknown = await start(server.client, { onUnknownOutcome: 'fail' });
  await unknown.signal(followUpSignal, { prompt: 'x', id: 'late' });
  open();
  const wrong = await start(server.client, { settle: -1 });
  await Promise.allSettled([unknown.result(), wrong.result()]);
  await Promise.all([untilEnd(unknown.workflowId), untilEnd(wrong.workflowId)]);
  const errors = ({ workflowId }: { workflowId: string }) =>
    Object.fromEntries(treeOf(workflowId).children.map(({ name, error }) => [name, error]));
  expect(errors(unknown)).toEqual({ create: 'UnknownOutcome', followUp: 'abandoned', [END]: 'UnknownOutcome' });
  expect(errors(wrong)).toEqual({ [END]: 'InvalidInput' });
});

test('a header that is no trace context harms nothing: the job has its own trace, and hands nothing on', async () => {
  await startWorker(collector.url);
  upstream.show = () => ({ status: 'completed' });
  const strange: Payload[] = [
    json({ traceparent: `00-${'0'.repeat(32)}-${CALLER_SPAN}-01` }),
    json({ traceparent: `${CALLER.traceparent}-more` }),
    json({ traceparent: `ff-${CALLER_TRACE}-${CALLER_SPAN}-01` }),
    json({ traceparent: 7 }),
    json({ ...CALLER, tracestate: 'x'.repeat(100_000) }),
    json(['00']),
    json(null),
    { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from([0, 255, 1]) },
    { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{"traceparent":') },
    {},
  ];
  const handles = await Promise.all(strange.map((payload) => start(clientWith(payload))));
  for (const handle of handles) {
    await handle.result();
    await untilEnd(handle.workflowId);
    const { root } = treeOf(handle.workflowId);
    expect(root.parentSpanId).toBe('');
    expect(root.traceId).toBe(traces.traceIdOf(handle.workflowId, 'agentJob'));
    const { events } = await handle.fetchHistory();
    expect(events!.filter(handsOn)).toEqual([]);
  }
});

const handsOn = ({
  activityTaskScheduledEventAttributes: scheduled,
}: {
  activityTaskScheduledEventAttributes?: unknown;
}) => JSON.stringify(scheduled ?? null).includes('_tracer-data');

/** What a history is made of, without the values that differ from job to job. */
async function shapeOf(workflowId: string): Promise<unknown> {
  const { events } = await server.client.workflow.getHandle(workflowId).fetchHistory();
  return JSON.parse(
    JSON.stringify(events, (key, value: unknown) => {
      if (key === 'eventTime' || key === 'historySizeBytes' || typeof value === 'number') return undefined;
      return typeof value === 'string' ? value.length : value;
    }),
  );
}

test('traces put nothing into a history where no caller sends a context, whether they are on or off', async () => {
  const shapes: unknown[] = [];
  for (const url of [undefined, collector.url]) {
    if (shapes.length > 0) await bench.stop();
    await startWorker(url);
    const handle = await start(server.client);
    await handle.result();
    shapes.push(await shapeOf(handle.workflowId));
    if (url !== undefined) await untilEnd(handle.workflowId);
  }
  expect(JSON.stringify(shapes[0])).not.toContain('_tracer-data');
  expect(shapes[1]).toEqual(shapes[0]);
});

test('a collector that never answers holds up neither a job nor the end', async () => {
  const silent = await startCollector({ answers: false });
  await startWorker(silent.url);
  upstream.show = () => ({ status: 'completed' });
  const handle = await start(server.client);
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  await expect.poll(() => silent.held()).toBeGreaterThan(0);
  await traces.end();
  // It still waits: the end did not.
  expect(silent.held()).toBeGreaterThan(0);
  await silent.close();
});
