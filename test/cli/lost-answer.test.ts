/** Temporal takes a command's request, and its answer never arrives. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { startScriptedServer } from '../client/scripted-server.js';
import { envOf, jsonLines, runCli } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

interface SwallowingProxy {
  address: string;
  /** Resolves when the request was handed on. */
  hasSwallowed: Promise<void>;
  close: () => void;
}

/** Hands on all bytes, but no answer after the request that holds this text. */
async function swallowAnswersAfter(text: string): Promise<SwallowingProxy> {
  const [host = '', port = ''] = server.address.split(':');
  const sockets: Socket[] = [];
  let swallowed = (): void => {};
  const hasSwallowed = new Promise<void>((resolve) => (swallowed = resolve));
  const proxy = createServer((near) => {
    const far = connect(Number(port), host);
    let isSilent = false;
    for (const socket of [near, far]) sockets.push(socket.on('error', () => {}));
    near.on('data', (bytes) => {
      isSilent ||= bytes.includes(text);
      far.write(bytes);
      if (isSilent) swallowed();
    });
    far.on('data', (bytes) => void (isSilent || near.write(bytes)));
    near.on('close', () => far.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const close = () => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  };
  return { address: `127.0.0.1:${(proxy.address() as AddressInfo).port}`, hasSwallowed, close };
}

test('a start without a key whose answer is lost names the key that makes the same command safe', async () => {
  const prompt = `stay ${randomUUID()}`;
  const { address, close } = await swallowAnswersAfter(prompt);
  const args = ['start', '--project', server.projectId, '--json', prompt];
  const lost = await runCli(args, { env: { ...envOf(server), TEMPORAL_ADDRESS: address } });
  close();
  expect(lost.code).toBe(11);
  const key = /--key ([0-9a-f-]{36})/.exec(lost.stderr)?.[1] ?? '';
  expect(key).not.toBe('');
  const again = await runInProcess([...args, '--key', key], { env: envOf(server) });
  const [{ workflowId } = {}] = jsonLines(again.stdout);
  const job = server.jobs.handle(workflowId as string);
  expect(await server.countRuns(job)).toBe(1);
  const started = await server.client.workflow.getHandle(job.workflowId).describe();
  // It runs since the first command.
  expect(started.startTime.getTime()).toBeLessThan(Date.now() - 20_000);
  await job.cancel();
});

test('a follow-up without an id that is interrupted names the id that makes the same command safe', async () => {
  const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'stay' });
  const message = `message ${randomUUID()}`;
  const { address, hasSwallowed, close } = await swallowAnswersAfter(message);
  const usedIds = async () => (await job.state()).usedFollowUpIds;
  const isTaken = async () => {
    await hasSwallowed;
    await expect.poll(usedIds).toHaveLength(1);
  };
  const args = ['follow-up', job.workflowId, message];
  const lost = await runCli(args, {
    env: { ...envOf(server), TEMPORAL_ADDRESS: address },
    interruptWhen: isTaken(),
  });
  close();
  expect(lost.code).toBe(130);
  const id = /--id ([0-9a-f-]{36})/.exec(lost.stderr)?.[1] ?? '';
  expect(await usedIds()).toEqual([id]);
  const again = await runInProcess([...args, '--id', id], { env: envOf(server) });
  expect(again.code).toBe(0);
  expect(await usedIds()).toEqual([id]);
  await job.cancel();
});
