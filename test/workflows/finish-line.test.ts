import { setTimeout as pause } from 'node:timers/promises';
import { WorkflowNotFoundError } from '@temporalio/client';
import { expect, test } from 'vitest';
import { followUpSignal } from '../../src/contract.js';
import { useDevServer } from '../support/job-tests.js';

const { upstream, bench } = useDevServer();
const JOBS = 12;

test('a follow-up that comes while its job ends is sent, or its caller learns that the job has ended', async () => {
  const job = { projectId: 'p1', prompt: 'Fix it', settle: 0, polling: { max: '1 second' } };
  const prompts: string[] = [];
  // How long these jobs take to end on this machine, busy as it is.
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: JOBS }, async () => (await bench.start(job)).result()));
  const spanMs = performance.now() - startedAt;
  const races = Array.from({ length: JOBS }, async (_, number) => {
    const handle = await bench.start(job);
    // The first poll ends each job: these come before, in and after the task that completes it.
    const prompt = `follow-up ${number}`;
    await pause((1.2 * spanMs * number) / JOBS);
    const isTaken = await handle.signal(followUpSignal, { prompt, id: 'late' }).then(
      () => true,
      (error: unknown) => {
        expect(error).toBeInstanceOf(WorkflowNotFoundError);
        return false;
      },
    );
    if (isTaken) prompts.push(prompt);
    const { outcome, followUps } = await handle.result();
    expect({ outcome, followUps }).toEqual({
      outcome: 'completed',
      followUps: isTaken ? [{ id: 'late', state: 'sent' }] : [],
    });
  });
  await Promise.all(races);
  expect(upstream.messages.toSorted()).toEqual(prompts.toSorted());
  expect(prompts.length).toBeGreaterThan(0);
});
