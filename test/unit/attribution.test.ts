import { hostname, userInfo } from 'node:os';
import { expect, test } from 'vitest';
import { parseAttribution } from '../../src/agent-job/input.js';
import { readArguments, userAtHost } from '../../src/cli/operation.js';
import { decisionText } from '../../src/cli/show.js';
import { OPERATIONS } from '../../src/operations.js';

test('without a name it is the user and the host', () => {
  const read = (typed: object) => readArguments(typed, OPERATIONS.cancel);
  expect(read({})).toEqual({ by: `${userInfo().username}@${hostname()}` });
  expect(read({ by: 'ann', note: 'why' })).toEqual({ by: 'ann', note: 'why' });
});

test('a user id without a name, as in a container, is named by its number', () => {
  const nameless = () => {
    throw new Error('ERR_SYSTEM_ERROR: uv_os_get_passwd returned ENOENT');
  };
  expect(userAtHost(nameless)).toBe(`uid-${process.getuid?.()}@${hostname()}`);
});

test.each(['a'.repeat(300), 'é'.repeat(150), 'two\nlines', 'half \ud83d', '\u001b[2J'])(
  'a strange user name is made one that is accepted: %j',
  (username) => {
    const by = userAtHost(() => ({ username }));
    expect(parseAttribution({ by })).toEqual({ by });
  },
);

test('a decision is shown in one line: what, about which write, when, by whom and why', () => {
  const at = '2026-01-31T09:15:00.123Z';
  const decision = { action: 'retry', kind: 'followUp', followUpId: 'f1', by: 'ann', note: 'lost', at } as const;
  expect(decisionText(decision)).toBe('retry for follow-up f1, 2026-01-31 09:15:00 UTC by ann: lost');
  expect(decisionText({ action: 'abandon', kind: 'create', at })).toBe(
    'abandon for the create, 2026-01-31 09:15:00 UTC',
  );
});
