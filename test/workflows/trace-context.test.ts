import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { expect, test } from 'vitest';
import { useDevServer } from '../support/job-tests.js';
import { CONTEXT_TEXT, contextsOfActivities, TRACE_ID, tracedClient } from '../support/traced-client.js';

const { server, bench } = useDevServer();

/** Runs a job to its end; returns the contexts that its activities were given. */
async function contextsOfJob(client: Client): Promise<(string | null)[]> {
  const handle = await client.workflow.start('agentJob', {
    taskQueue: bench.taskQueue,
    workflowId: `agent-job/traced/${randomUUID()}`,
    args: [{ projectId: 'traced', prompt: 'Mend it', settle: 0 }],
  });
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  return contextsOfActivities(await handle.fetchHistory());
}

const json = (value: unknown) => defaultPayloadConverter.toPayload(value);
const SPAN = 'b7ad6b7169203331';

test('the trace context of a caller is handed on to each activity of the job, and none without one', async () => {
  const traced = await contextsOfJob(tracedClient(server.client));
  expect(traced.length).toBeGreaterThan(1);
  expect(new Set(traced)).toEqual(new Set([CONTEXT_TEXT]));
  expect(await contextsOfJob(server.client)).toEqual(traced.map(() => null));
});

test('a header that is no trace context harms nothing, and is not handed on', async () => {
  const strange: Payload[] = [
    json({ traceparent: `00-${'0'.repeat(32)}-${SPAN}-01` }),
    json({ traceparent: 7 }),
    json({ traceparent: `00-${TRACE_ID}-${SPAN}-01`, tracestate: 'x'.repeat(100_000) }),
    json(null),
    { metadata: { encoding: Buffer.from('binary/encrypted') }, data: Buffer.from([0, 255, 1]) },
    { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{"traceparent":') },
    {},
  ];
  const contexts = await Promise.all(strange.map((payload) => contextsOfJob(tracedClient(server.client, payload))));
  expect(new Set(contexts.flat())).toEqual(new Set([null]));
});
