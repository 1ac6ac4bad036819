/** The command of docs/client.md publishes both packages to the registry that it names, and to no other. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { PROJECT_FOLDER } from './consumer.js';

test('both packages go to a private registry, and without its name to none', async () => {
  const published: string[] = [];
  const registry = createServer((request, response) => {
    if (request.method === 'PUT') published.push(request.url!);
    request.resume().on('end', () => response.writeHead(request.method === 'PUT' ? 201 : 404).end('{}'));
  }).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  const host = `127.0.0.1:${(registry.address() as AddressInfo).port}`;
  const page = await readFile(`${PROJECT_FOLDER}docs/client.md`, 'utf8');
  const command = /^npm publish .*$/m.exec(page)![0].replace('https://npm.example.com', `http://${host}`);
  const [npm, ...args] = [...command.split(' '), '--ignore-scripts', `--//${host}/:_authToken=token`];
  await promisify(execFile)(npm, args, { cwd: PROJECT_FOLDER });
  expect(published.toSorted()).toEqual(['/agent-jobs', '/agent-jobs-client']);
  for (const file of ['package.json', 'packages/client/package.json']) {
    const { publishConfig } = JSON.parse(await readFile(PROJECT_FOLDER + file, 'utf8')) as Record<string, object>;
    expect(publishConfig, file).toEqual({ registry: expect.stringMatching(/\.invalid$/) });
  }
  registry.closeAllConnections();
  registry.close();
});
