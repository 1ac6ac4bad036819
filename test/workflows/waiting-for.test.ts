/** The search attribute that shows what a job waits for: when it is set, and what that costs. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter, defineSearchAttributeKey, type Payload } from '@temporalio/common';
import { expect, test } from 'vitest';
import { jobStateQuery, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { notDelivered, throttled, unauthorized } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { useForFile } from '../support/use.js';

const WAITING_FOR = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, 'KEYWORD');
// temporal.api.enums.v1.EventType
const UPSERT = 40;

const server = useForFile(connectDevServer);

async function withBench(
  work: (bench: JobBench, upstream: ScriptedUpstream) => Promise<void>,
  options: Parameters<typeof startJobBench>[2] = {},
) {
  const upstream = new ScriptedUpstream();
  const bench = await startJobBench(server, upstream, options);
  try {
    await work(bench, upstream);
  } finally {
    await bench.stop();
  }
}

const shown = async (handle: WorkflowHandle) => (await handle.describe()).typedSearchAttributes.get(WAITING_FOR);
const eventTypes = async (handle: WorkflowHandle) => (await handle.fetchHistory()).events!.map((e) => e.eventType);

/** All that it was shown to wait for, by its history: a wait of a second may lie between two looks. */
async function everShown(handle: WorkflowHandle): Promise<unknown[]> {
  const { events } = await handle.fetchHistory();
  const upserts = events!.flatMap((event) => event.upsertWorkflowSearchAttributesEventAttributes ?? []);
  const values = upserts.flatMap(({ searchAttributes }) => searchAttributes?.indexedFields?.[WAITING_FOR.name] ?? []);
  return values.map((value) => defaultPayloadConverter.fromPayload(value as Payload));
}

const WAITS: [string, WriteOutcome][] = [
  ['rateLimit', throttled('upstream answered 429', 2_000)],
  ['key', unauthorized('upstream answered 401')],
  ['upstream', notDelivered('connection refused')],
  ['upstream', { kind: 'blocked', reason: 'a page instead of an answer: 403' }],
];

test.for(WAITS)('a create that waits for %s is shown so, and no longer once it has been sent', ([what, fault]) =>
  withBench(async (bench, upstream) => {
    upstream.createFaults.push(fault);
    const handle = await bench.start({ projectId: `p ${randomUUID()}`, prompt: 'Fix it' });
    expect(await handle.result()).toMatchObject({ outcome: 'completed' });
    expect(await everShown(handle)).toContain(what);
    expect(await shown(handle)).toBeUndefined();
  }),
);

test('a wait costs one event', async () => {
  const upserts: number[] = [];
  for (const faults of [[], [throttled('429', 1_000)]])
    await withBench(async (bench, upstream) => {
      upstream.createFaults.push(...faults);
      const handle = await bench.start({ projectId: `p ${randomUUID()}`, prompt: 'Fix it' });
      await handle.result();
      upserts.push((await eventTypes(handle)).filter((type) => type === UPSERT).length);
    });
  expect(upserts[1]! - upserts[0]!).toBe(1);
});

test.for([
  ['429 once, with a Retry-After', 'rateLimit', [[429, 3_000]]],
  ['503, after another cause', 'upstream', [[401], [503]]],
  ['503 once', undefined, [[503]]],
] as const)('polls that meet %s are shown as %s until a read is good, held by the worker or not', ([, what, faults]) =>
  withBench(
    async (bench, upstream) => {
      upstream.show = (read) => ({ status: read > faults.length + 2 ? 'completed' : 'active' });
      upstream.readFaults.push(
        ...faults.map(([status, ms]) => new ReadFailedError('r', status, ms, `upstream answered ${status}`)),
      );
      const polling = { min: 1_000, max: 1_000 };
      const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', settle: 0, polling });
      const said: (string | undefined)[] = [];
      while ((await handle.describe()).status.name === 'RUNNING') {
        const { waiting } = await handle.query(jobStateQuery);
        if (waiting && waiting.for !== 'poll') said.push(`${waiting.for}: ${waiting.reason}`);
      }
      const last = what && `${what}: upstream answered ${faults.at(-1)![0]}`;
      expect([...new Set(said)]).toEqual(last ? [last] : []);
      expect((await everShown(handle)).filter((value) => value !== null && value !== undefined)).toEqual(
        what ? [what] : [],
      );
      expect(await shown(handle)).toBeUndefined();
    },
    { holdsPolls: faults.length > 1 },
  ),
);
