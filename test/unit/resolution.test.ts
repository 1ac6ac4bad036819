import { expect, test } from 'vitest';
import { earlyRetryWarning } from '../../src/cli/resolve.js';
import type { InDoubtWrite } from '../../src/contract.js';

const LOOK_AFTER = '2026-01-01T00:02:00.000Z';
const unknown: InDoubtWrite = {
  kind: 'create',
  reason: 'reset',
  since: '2026-01-01T00:00:00.000Z',
  lookAfter: LOOK_AFTER,
};
const at = (time: string) => Date.parse(time);

test('whoever says retry while the write may still be on its way is warned', () => {
  const retry = { workflowId: 'w', action: 'retry' } as const;
  expect(earlyRetryWarning(retry, unknown, at('2026-01-01T00:01:59.000Z'))).toContain(`until ${LOOK_AFTER}`);
  expect(earlyRetryWarning(retry, unknown, at(LOOK_AFTER))).toBeNull();
});

test('other decisions double nothing', () => {
  const abandon = { workflowId: 'w', action: 'abandon' } as const;
  expect(earlyRetryWarning(abandon, unknown, at(unknown.since))).toBeNull();
});
