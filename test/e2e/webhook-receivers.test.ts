/** The receivers of `examples/webhooks`, as programs that are sent what a worker sends. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { post } from '../../src/activities/webhooks/post.js';
import { fetchPythonPackage } from '../support/python-packages.js';

const EXAMPLES = fileURLToPath(new URL('../../examples/webhooks/', import.meta.url));
const SECRET = randomBytes(32);
const OTHER_SECRET = randomBytes(32);
const WORKFLOW = 'agent-job/acme/caf%C3%A9';
const BODY = JSON.stringify({ type: 'agent_job.ended', data: { workflowId: WORKFLOW, tags: ['Grüße 🐍'] } });

/** An example that runs, and what it printed since it listens. */
interface Receiver {
  url: URL;
  printed: string[];
}

const children: ChildProcess[] = [];
afterAll(() => children.forEach((child) => child.kill('SIGKILL')));

async function startReceiver(program: string, args: string[], more: NodeJS.ProcessEnv = {}): Promise<Receiver> {
  const settings = { PORT: '0', WEBHOOK_SECRET: `whsec_${SECRET.toString('base64')}` };
  const env = { PATH: process.env['PATH'], ...settings, ...more };
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const printed: string[] = [];
  const lines = createInterface(child.stdout);
  const [first] = await Promise.race([once(lines, 'line'), once(child, 'close')]);
  lines.on('line', (line) => printed.push(line));
  const [url] = /http:\S+$/.exec(String(first)) ?? [];
  if (url === undefined) throw new Error(`the receiver did not listen: ${errors}`);
  return { url: new URL('/hooks?from=test', url), printed };
}

let packages: string;
beforeAll(async () => {
  packages = await fetchPythonPackage('standardwebhooks==1.1.0');
}, 600_000);

const RECEIVERS = {
  'receiver.ts': () => startReceiver(process.execPath, ['--import', 'tsx', `${EXAMPLES}receiver.ts`]),
  'receiver.py': () =>
    startReceiver('python3', [`${EXAMPLES}receiver.py`], { PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: '1' }),
};

test.for(Object.entries(RECEIVERS))(
  '%s takes what a worker signs, knows what comes again, and declines what others sign',
  async ([, start]) => {
    const { url, printed } = await start();
    const send = async (eventId: string, secrets: Buffer[]) =>
      (await post({ endpoint: { url, secrets }, eventId, body: BODY, way: { allowPrivate: true } })).status;
    expect(await send('evt_1', [OTHER_SECRET])).toBe(400);
    expect(await send('evt_1', [SECRET])).toBe(204);
    expect(await send('evt_1', [SECRET])).toBe(204);
    expect(await send('evt_2', [OTHER_SECRET, SECRET])).toBe(204);
    const told = ['new', 'again', 'new'].map((word) => `${word} agent_job.ended ${WORKFLOW}`);
    await expect.poll(() => printed).toEqual(told);
  },
);

test.for(Object.entries(RECEIVERS))(
  '%s declines a request without a signature, and one that is none',
  async ([, start]) => {
    const { url, printed } = await start();
    const send = async (headers: Record<string, string>) =>
      (await fetch(url, { method: 'POST', headers, body: BODY })).status;
    const signed = { 'webhook-id': 'evt_1', 'webhook-timestamp': String(Math.floor(Date.now() / 1_000)) };
    expect(await send({})).toBe(400);
    expect(await send({ ...signed, 'webhook-signature': 'v1' })).toBe(400);
    expect(await send({ ...signed, 'webhook-signature': 'v1,%%%' })).toBe(400);
    const { status } = await post({
      endpoint: { url, secrets: [SECRET] },
      eventId: 'evt_2',
      body: BODY,
      way: { allowPrivate: true },
    });
    expect(status).toBe(204);
    await expect.poll(() => printed).toEqual([`new agent_job.ended ${WORKFLOW}`]);
  },
);
