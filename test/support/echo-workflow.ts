import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  defineSignal,
  proxyActivities,
  setHandler,
  sleep,
  upsertSearchAttributes,
} from '@temporalio/workflow';

const { shout } = proxyActivities<{ shout(text: string): Promise<string> }>({ startToCloseTimeout: '10 seconds' });

/** The smallest workflow that uses an activity, a timer and a search attribute of the contract. */
export async function echo(text: string, waitMs: number): Promise<string> {
  upsertSearchAttributes({ AgentJobPhase: ['watching'] });
  await sleep(waitMs);
  return shout(text);
}

const { hold } = proxyActivities<{ hold(): Promise<string> }>({
  startToCloseTimeout: '1 minute',
  cancellationType: ActivityCancellationType.TRY_CANCEL,
});

/** Cancels an activity in a workflow task that takes a second. */
export async function cutShort(): Promise<string> {
  let isCut = false;
  setHandler(defineSignal('cut'), () => {
    isCut = true;
    // The clock stands still within a task.
    for (let i = 0, n = 0; i < 1_000_000_000; i += 1) n ^= i;
  });
  const scope = new CancellationScope();
  const held = scope.run(() => hold()).catch(() => 'cut short');
  await condition(() => isCut);
  scope.cancel();
  return held;
}
