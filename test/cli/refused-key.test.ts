import { expect, test } from 'vitest';
import { CONNECTS, startRefusingServer } from '../support/refusing-temporal.js';
import { runInProcess } from './run-in-process.js';

const UNAUTHENTICATED = 16;
const PERMISSION_DENIED = 7;
const COMMANDS = [
  ['state', 'w'],
  ['start', 'do it', '--project', 'p'],
];

test.each([
  { when: 'the connection', status: UNAUTHENTICATED, accepted: [] },
  { when: 'a call in the namespace', status: UNAUTHENTICATED, accepted: CONNECTS },
  { when: 'a call in the namespace', status: PERMISSION_DENIED, accepted: CONNECTS },
])('where Temporal refuses $when with status $status, a command names the key', async ({ status, accepted }) => {
  const refusing = await startRefusingServer(status, undefined, accepted);
  const env = {
    TEMPORAL_ADDRESS: `127.0.0.1:${refusing.port}`,
    TEMPORAL_API_KEY: 'a-wrong-key',
    TEMPORAL_TLS: 'false',
  };
  try {
    for (const command of COMMANDS) {
      const { code, stderr } = await runInProcess(command, { env });
      expect(stderr).toContain('check TEMPORAL_API_KEY or the client certificate');
      expect(stderr).not.toContain('a-wrong-key');
      expect(code).toBe(1);
    }
  } finally {
    refusing.close();
  }
});
