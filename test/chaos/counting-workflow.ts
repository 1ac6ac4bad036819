/** A workflow whose tasks a test holds up: it counts signals, and does other work when two come in one task. */
import {
  condition,
  defineQuery,
  defineSignal,
  proxyActivities,
  setHandler,
  sleep,
  upsertSearchAttributes,
} from '@temporalio/workflow';

const { shout } = proxyActivities<{ shout(text: string): Promise<string> }>({ startToCloseTimeout: '10 seconds' });

/** Called once it waits on, and does other work when the second call comes much later. */
export async function timed(): Promise<string> {
  const calls: number[] = [];
  setHandler(defineSignal('call'), () => void calls.push(Date.now()));
  setHandler(defineQuery('calls'), () => calls.length);
  await condition(() => calls.length > 1);
  const [first = 0, second = 0] = calls;
  if (second - first > 5_000) await sleep(100);
  return shout('done');
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
