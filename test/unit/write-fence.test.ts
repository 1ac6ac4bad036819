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

test.each([
  [{}, 'the workflow was reset'],
  [{ repeatedRun: true }, 'Temporal started this run again'],
  [{ repeatedRun: true, isScheduled: true }, 'this workflow id may have had a run before'],
])('why a write of %j asks is told as far as it is known', async (input, reason) => {
  const environment = new MockActivityEnvironment({});
  const check = () => Promise.resolve(checkPriorAttempt({ afterReset: true, askedAt: 0, ...input }));
  expect(await environment.run(check)).toMatchObject({ kind: 'inDoubt', reason: expect.stringContaining(reason) });
});
