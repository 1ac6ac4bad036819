import { proxyActivities } from '@temporalio/workflow';

interface Activities {
  sweepEvents: (state: unknown) => Promise<unknown>;
  addedActivity: () => Promise<unknown>;
}

/** As a later release may have it: with an activity besides. It ends, as one that somebody ended. */
export async function webhookSweep(state: unknown): Promise<void> {
  const { sweepEvents, addedActivity } = proxyActivities<Activities>({ startToCloseTimeout: '1 minute' });
  await sweepEvents(state);
  await addedActivity();
}
