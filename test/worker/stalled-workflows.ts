import { CancellationScope, condition } from '@temporalio/workflow';

/** Computes without a pause, as an activation seems to that was under way while the process stood still. */
export async function stall(rounds: number): Promise<number> {
  return CancellationScope.nonCancellable(async () => spin(rounds));
}

/** Ends as cancelled when it is cancelled. */
export async function untilCancelled(): Promise<void> {
  await condition(() => false);
}

/** The same loop on both sides of a measurement. */
export function spin(rounds: number): number {
  let sum = 0;
  for (let round = 0; round < rounds; round++) sum = (sum + round) % 1_000_003;
  return sum;
}
