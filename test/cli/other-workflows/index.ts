import { sleep } from '@temporalio/workflow';

/** Other code under the name of a type of this package: it begins with a timer. */
export async function agentJob(): Promise<void> {
  await sleep(1);
}
