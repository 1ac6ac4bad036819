import { setTimeout as pause } from 'node:timers/promises';
import { Draw } from './draw.js';
import type { KillableTemporal } from './temporal-server.js';
import type { UpstreamProcess } from './upstream-process.js';
import type { WorkerFleet } from './worker-fleet.js';

interface DisturbedParts {
  fleet: WorkerFleet;
  temporal: KillableTemporal;
  upstream: UpstreamProcess;
  workers: number;
  /** Terminates a queue of requests; false if it does not run. */
  terminateQueue?: (() => Promise<boolean>) | undefined;
}

/** What happens to whole processes, at random moments drawn from the seed. */
const EVENTS = [
  'worker killed',
  'worker killed',
  'worker frozen 3 s',
  'worker frozen 12 s',
  'worker frozen 40 s',
  'all workers killed',
  'Temporal killed',
  'upstream killed',
] as const;

/** Beside them, if requests wait in queues. */
const QUEUE_EVENTS = ['queue terminated', 'queue terminated'] as const;

type Event = (typeof EVENTS)[number] | (typeof QUEUE_EVENTS)[number];

/** Disturbs until the signal; answers with how often each thing was done. */
export async function disturb(
  parts: DisturbedParts,
  seed: number,
  meanMs: number,
  until: AbortSignal,
): Promise<Map<string, number>> {
  const draw = new Draw(seed, 'disturbance');
  const all: readonly Event[] = parts.terminateQueue ? [...EVENTS, ...QUEUE_EVENTS] : EVENTS;
  const done = new Map<string, number>();
  const frozen: Promise<unknown>[] = [];
  for (let events = draw.shuffled(all); ; events = events.length > 0 ? events : draw.shuffled(all)) {
    await pause(draw.between(meanMs / 2, meanMs * 1.5), undefined, { signal: until }).catch(() => {});
    if (until.aborted) break;
    const event = events.pop()!;
    if (await carryOut(event, parts, draw, frozen)) done.set(event, (done.get(event) ?? 0) + 1);
  }
  parts.fleet.calm();
  await Promise.all(frozen);
  return done;
}

async function carryOut(
  event: Event,
  { fleet, temporal, upstream, workers, terminateQueue }: DisturbedParts,
  draw: Draw,
  frozen: Promise<unknown>[],
): Promise<boolean> {
  const slot = draw.between(0, workers - 1);
  const seconds = Number(/frozen (\d+) s/.exec(event)?.[1]);
  if (seconds > 0) frozen.push(fleet.freeze(slot, seconds * 1_000));
  else if (event === 'worker killed') return fleet.kill(slot);
  else if (event === 'all workers killed') for (let each = 0; each < workers; each++) fleet.kill(each);
  else if (event === 'queue terminated') return terminateQueue?.().catch(() => false) ?? false;
  else if (event === 'Temporal killed') await temporal.restart(draw.between(0, 3_000));
  else await upstream.restart(draw.between(0, 2_000));
  return true;
}
