import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test } from 'vitest';
import { checkPriorAttempt } from '../../src/activities/agent-job/write-fence.js';

/** What an attempt knows of the ones before it, by the details that they left. */
function known(heartbeatDetails: unknown) {
  const environment = new MockActivityEnvironment({ attempt: 2, heartbeatDetails });
  return environment.run(() => Promise.resolve(checkPriorAttempt({ afterReset: false, askedAt: 0 })));
}

test.each([undefined, { sent: false }])('a write that was surely not sent (%j) is sent', async (details) => {
  expect(await known(details)).toBeNull();
});

test.each([{ sent: true }, { state: 'sent' }, { sent: 'yes' }, 'sent', null, []])(
  'a mark (%j), that of another release too, is never overlooked',
  async (details) => {
    expect(await known(details)).toMatchObject({ kind: 'inDoubt' });
  },
);
