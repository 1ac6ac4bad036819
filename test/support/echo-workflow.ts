import { proxyActivities, sleep, upsertSearchAttributes } from '@temporalio/workflow';

const { shout } = proxyActivities<{ shout(text: string): Promise<string> }>({ startToCloseTimeout: '10 seconds' });

/** The smallest workflow that uses an activity, a timer and a search attribute of the contract. */
export async function echo(text: string, waitMs: number): Promise<string> {
  upsertSearchAttributes({ AgentJobPhase: ['watching'] });
  await sleep(waitMs);
  return shout(text);
}
