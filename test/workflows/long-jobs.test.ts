import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { expect, test } from 'vitest';
import { followUpSignal } from '../../src/contract.js';
import { useSkippedTime } from '../support/job-tests.js';

const tests = useSkippedTime();

async function historyOf(workflowId: string) {
  return tests.environment.client.workflow.getHandle(workflowId).fetchHistory();
}

test('a job of 20 polls with a follow-up in their midst stays within 46 history events', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = (read) => ({ status: read < 20 || upstream.messages.length === 0 ? 'active' : 'completed' });
  const polling = { min: 10_000, max: 10_000 };
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', polling });
  await environment.sleep('95 seconds');
  await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', followUps: [{ id: 'one', state: 'sent' }] });
  expect(result.polls).toBeGreaterThanOrEqual(20);
  expect((await historyOf(handle.workflowId)).events!.length).toBeLessThanOrEqual(46);
});

test('what a further poll reads leaves nothing in the history', async () => {
  const { upstream, bench } = tests;
  const sizes: number[] = [];
  for (const polls of [10, 50]) {
    upstream.show = (read) => ({ status: read < polls ? 'active' : 'completed' });
    upstream.reads = 0;
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
    expect(await handle.result()).toMatchObject({ polls });
    const history = await historyOf(handle.workflowId);
    sizes.push(history.events!.length);
    expect(historyToJSON(history)).not.toContain('TIMER');
  }
  expect(sizes[1]).toBe(sizes[0]);
});
