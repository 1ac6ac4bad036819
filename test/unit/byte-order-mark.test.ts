import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Budgets } from '../../src/activities/agent-job/budgets.js';
import { readWorkerConfig } from '../../src/config.js';
import { readPayloadKeys } from '../../src/config/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { newFolder } from '../support/folder.js';

const folder = newFolder();

function file(name: string, content: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, `\ufeff${typeof content === 'string' ? content : JSON.stringify(content)}\r\n`);
  return path;
}

const adminApiKeyFile = file('key', 'the-key');
const projectKeysFile = file('project-keys.json', { p: 'its-key' });
const projectBudgetsFile = file('budgets.json', { p: { createsPerHour: 5 } });
const payloadKeysFile = file('payload-keys.json', { current: 'a', keys: { a: Buffer.alloc(32).toString('base64') } });

test('a file of settings may begin with a byte order mark, as editors on Windows write it', async () => {
  const config = readWorkerConfig({
    UPSTREAM_BASE_URL: 'https://api.example.com',
    ADMIN_API_KEY_FILE: adminApiKeyFile,
    PROJECT_KEYS_FILE: projectKeysFile,
    PROJECT_BUDGETS_FILE: projectBudgetsFile,
    PAYLOAD_KEYS_FILE: payloadKeysFile,
    TEMPORAL_API_KEY_FILE: file('temporal-key', 'a-key'),
  });
  expect(config.temporal.connectionOptions.apiKey).toBe('a-key');
  const keys = createKeySource({ adminApiKeyFile, projectKeysFile });
  expect([await keys.keyFor('p'), await keys.keyFor('q')]).toEqual(['its-key', 'the-key']);
  expect(await new Budgets({ projectBudgetsFile }).of('create', 'p')).toMatchObject({ perHour: 5 });
  expect((await readPayloadKeys({ PAYLOAD_KEYS_FILE: payloadKeysFile })?.current())?.[0]).toBe('a');
});
