import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  defineQuery,
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

/** Called once it sleeps, called twice within one workflow task it shouts, and then waits for the second call. */
export async function called(isShown: boolean): Promise<string> {
  let calls = 0;
  if (isShown) upsertSearchAttributes({ AgentJobPhase: ['watching'] });
  setHandler(defineSignal('call'), () => void (calls += 1));
  setHandler(defineQuery('calls'), () => calls);
  await condition(() => calls > 0);
  if (calls === 1) await sleep(100);
  else await shout('twice');
  await condition(() => calls > 1);
  return shout('done');
}
