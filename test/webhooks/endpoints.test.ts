import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { readWebhooksConfig } from '../../src/config.js';
import { WEBHOOK_EVENTS } from '../../src/contract/webhooks.js';
import { useReceiver, SECRET } from './receiver.js';

const OTHER = `whsec_${Buffer.alloc(64, 7).toString('base64')}`;
const url = 'https://example.com/hooks/of-a-secret-path?token=secret';

const receiver = useReceiver();

async function open(content: unknown, allowPrivate = false) {
  await (typeof content === 'string' ? writeFile(receiver.file, content) : receiver.configure(content));
  return new Endpoints({ path: receiver.file, allowPrivate });
}

test('events of a project go to its own endpoints and to those of all projects', async () => {
  const one = { url, secrets: [SECRET] };
  const two = { url: 'https://other.example.com/', secrets: [OTHER], events: ['agent_job.ended'] };
  const endpoints = await open({ '*': [one], p: [two] });
  expect(await endpoints.all()).toHaveLength(2);
  const hrefs = async (projectId: string | null) => (await endpoints.of(projectId)).map(({ url: to }) => to.href);
  expect(await hrefs('p')).toEqual([two.url, url]);
  expect(await hrefs('q')).toEqual([url]);
  expect(await hrefs(null)).toEqual([url]);
  const [first, second] = await endpoints.of('p');
  expect([first!.events, second!.events]).toEqual([['agent_job.ended'], WEBHOOK_EVENTS]);
  expect(first!.id).toMatch(/^[0-9a-f]{16}$/);
});

const SECRETS = 'project "p", endpoint 1, secrets.0: should be whsec_ and the base64 of 24 to 64';
test.each([
  ['not JSON', 'it is not valid JSON'],
  ['[]', 'expected record'],
  [{ [OTHER]: 'x' }, 'a project: Invalid input: expected array'],
  [{ [url]: 'x' }, 'a project: Invalid input: expected array'],
  [
    { p: [{ url: 'http://example.com/', secrets: [SECRET] }] },
    'project "p", endpoint 1, url: should be an https address',
  ],
  [{ p: [{ url: 'http://example.com/', secrets: [SECRET] }] }, 'http goes with WEBHOOKS_ALLOW_PRIVATE=true'],
  [{ p: [{ url: 'https://a:b@example.com/', secrets: [SECRET] }] }, 'endpoint 1, url: should be'],
  [{ p: [{ url: '/hooks', secrets: [SECRET] }] }, 'project "p", endpoint 1, url: should be an https address'],
  [{ p: [{ url, secrets: [] }] }, 'project "p", endpoint 1, secrets: Too small'],
  [{ p: [{ url, secrets: ['whsec_c2hvcnQ='] }] }, SECRETS],
  [{ p: [{ url, secrets: [`whsec_${Buffer.alloc(65).toString('base64')}`] }] }, SECRETS],
  [{ p: [{ url, secrets: [SECRET.replace('whsec_', '')] }] }, SECRETS],
  [{ p: [{ url, secrets: [`${SECRET}!`] }] }, SECRETS],
  [{ p: [{ url, secrets: [SECRET], events: ['ended'] }] }, 'endpoint 1, events.0: Invalid option'],
  [
    { p: [], q: [{ url, secrets: [SECRET], [OTHER]: true }] },
    'project "q", endpoint 1: has a field that is none of url, secrets',
  ],
])('%j is refused, with the place and without a secret', async (content, problem) => {
  const error = await (await open(content)).all().catch((reason: Error) => reason);
  expect((error as Error).message).toContain(problem);
  for (const secret of [SECRET, OTHER, 'secret-path', 'c2hvcnQ']) {
    expect((error as Error).message).not.toContain(secret);
  }
});

test('while a setting beside the file is wrong no endpoint is read: no post goes past its proxy', async () => {
  await receiver.configure({ p: [{ url, secrets: [SECRET] }] });
  for (const wrong of [{ WEBHOOKS_PROXY: 'ftp://proxy:1' }, { WEBHOOKS_ALLOW_PRIVATE: 'yes' }]) {
    const config = readWebhooksConfig({ WEBHOOKS_FILE: receiver.file, WEBHOOKS_PROXY: 'proxy:3128', ...wrong })!;
    const endpoints = new Endpoints(config);
    for (const read of [endpoints.all(), endpoints.of('p')]) await expect(read).rejects.toThrow(Object.keys(wrong)[0]);
  }
});

test('while the file is wrong its last good content holds, and both are reported once', async () => {
  const problems: (string | null)[] = [];
  await receiver.configure({ p: [{ url, secrets: [SECRET] }] });
  const onProblem = (problem: string | null) => void problems.push(problem);
  const endpoints = new Endpoints({ path: receiver.file, allowPrivate: false, onProblem });
  expect(await endpoints.of('p')).toHaveLength(1);
  await writeFile(receiver.file, '{');
  await expect.poll(async () => (await endpoints.of('p')).length && problems.length).toBe(2);
  await receiver.configure({});
  await expect.poll(async () => (await endpoints.of('p')).length).toBe(0);
  const holds = expect.stringContaining('it is not valid JSON; its last good content holds') as string;
  expect(problems).toEqual([null, holds, null]);
});
