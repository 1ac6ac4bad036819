import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { followUpSignal } from '../../src/contract.js';
import { gate } from '../support/observed-upstream.js';
import { useDevServer } from '../support/job-tests.js';

const tests = useDevServer();

test('a job whose queue is full at its start is polled on from the first follow-up on', async () => {
  const { bench, upstream } = tests;
  const { opened, open } = gate();
  upstream.createGate = opened;
  upstream.show = () => ({ status: upstream.messages.length === 3 ? 'completed' : 'active' });
  const send = upstream.sendMessage.bind(upstream);
  const readsBefore: number[] = [];
  upstream.sendMessage = async (request) => {
    for (let tries = 0; upstream.messages.length === 2 && upstream.reads === 0 && tries < 200; tries++) await pause(50);
    readsBefore.push(upstream.reads);
    return send(request);
  };
  const job = await bench.start({ projectId: 'p1', prompt: 'Fix it', settle: 0 });
  for (const id of ['a', 'b', 'c']) await job.signal(followUpSignal, { id, prompt: id });
  open();
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.messages).toEqual(['a', 'b', 'c']);
  expect(readsBefore[2]).toBeGreaterThan(0);
});
