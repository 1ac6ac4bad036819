import { expect, test } from 'vitest';
import { noMetrics } from '../support/no-metrics.js';
import { startJobBench } from '../support/job-bench.js';
import { throttled } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';

const tests = useDevServer();

test('a write that is held back for another one’s 429 is not sent, and counts as no send', async () => {
  const { server, upstream } = tests;
  const sends: string[] = [];
  const writeEnded = (_: string, outcome: string) => void sends.push(outcome);
  const bench = await startJobBench(server, upstream, { metrics: { ...noMetrics, writeEnded } });
  try {
    upstream.createFaults.push(throttled('429', 3_000));
    const first = await bench.start({ projectId: 'held-back', prompt: 'Fix it' });
    await expect.poll(() => upstream.created.length).toBe(1);
    const second = await bench.start({ projectId: 'held-back', prompt: 'Fix that' });
    for (const job of [first, second]) expect(await job.result()).toMatchObject({ outcome: 'completed' });
    expect(upstream.created).toHaveLength(3);
    expect(sends).toEqual(['throttled', 'accepted', 'accepted']);
  } finally {
    await bench.stop();
  }
});
