import { afterEach, expect, test } from 'vitest';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { createUpstream } from '../../src/upstream/client.js';
import { withoutEcho } from '../../src/upstream/echo.js';

const PROMPT = 'Customer Jane Doe, card 4711 0815, says:\n\t"the login page is BROKEN since Tuesday" – fix it.';
let sandbox: Sandbox;
afterEach(async () => sandbox?.close());

async function refusalOf(body: unknown, prompt = PROMPT): Promise<string> {
  sandbox = await startSandbox();
  await sandbox.addFault({ kind: 'status', operation: 'create', status: 400, body: body as object });
  const keys = { keyFor: async () => sandbox.apiKey, refresh: async () => null };
  const upstream = createUpstream({ baseUrl: sandbox.url, keys, timeoutMs: 5_000, notTakenStatuses: [] });
  const outcome = await upstream.createJob({ projectId: 'p', prompt });
  await upstream.close();
  expect(outcome.kind).toBe('rejected');
  return (outcome as { error: string }).error;
}

test('masks a prompt that the upstream repeats, and keeps what it says about it', async () => {
  expect(await refusalOf({ error: `Prompt "${PROMPT}" is not allowed` })).toBe('Prompt "***." is not allowed');
});

test.each([
  ['escaped once more', JSON.stringify(PROMPT)],
  ['with other white space', PROMPT.replace(/\s+/g, ' \u00a0 ')],
  ['in capitals', PROMPT.toUpperCase()],
  ['a piece from its middle', PROMPT.slice(10, 60)],
  ['cut in two', `${PROMPT.slice(0, 40)} … ${PROMPT.slice(44)}`],
])('masks it %s', async (_, echo) => {
  const text = await refusalOf({ error: 'bad input', details: [{ message: echo }] });
  expect(text).toContain('bad input; ');
  expect(text).toContain('***');
  expect(text.toLowerCase()).not.toMatch(/jane|4711|login page|tuesday/);
});

test('masks a short prompt as a whole, and leaves words that are no echo', () => {
  expect(withoutEcho('can not "Say  hello" today', 'Say hello')).toBe('can not "***" today');
  expect(withoutEcho('fix is not a prompt', 'fix')).toBe('fix is not a prompt');
  expect(withoutEcho('unknown project "acme"', PROMPT)).toBe('unknown project "acme"');
});

test('takes the longest prompt there is, however much it is like the text', () => {
  expect(withoutEcho(`${'a'.repeat(1_990)}b`, 'a'.repeat(512 * 1024))).toBe('***b');
});
