/** A crowd: many jobs of one project at once, more than the upstream takes in an hour. */
import type { Priority } from '../../src/contract.js';
import type { RateLimits } from '../../src/sandbox/rate-limit.js';
import { crowdFigures, type CrowdFigures } from './figures.js';
import type { SeenRequest } from './virtual-upstream.js';
import { World, type JobOrder } from './world.js';
import type { Program } from './workers.js';

export interface CrowdOptions {
  /** The program of the time-skipping server. */
  server: string;
  jobs: number;
  perHour: number;
  window?: RateLimits['window'];
  /** Workers are told the budget. */
  isSet?: boolean;
  /** The worker that sends the create of this number is killed before it hears the answer; default: none. */
  killAtCreate?: number;
  /** Default: 1 to 5, mixed. */
  priorityOf?: (index: number) => Priority;
  program?: Program;
  /** The simulation ends after so long. */
  mostHours: number;
}

/** What one that waited cost beyond what it would have cost alone. */
interface WaitCost {
  events: number;
  actions: number;
  prompts: number;
}

export interface CrowdResult extends CrowdFigures {
  outcomes: Record<string, number>;
  /** Of those that waited at least an hour, the dearest. */
  dearestWait: WaitCost;
  /** Of the queue itself; null where there is none. */
  queue: { events: number; actions: number; runs: number } | null;
}

const HOUR_MS = 3_600_000;
const PROJECT = 'crowded';
/** Of a job that need not wait, is read once and ends. */
export const ALONE = { events: 21, actions: 8, prompts: 2 } as const;

export async function runCrowd(options: CrowdOptions): Promise<CrowdResult> {
  const { server, jobs, perHour, window = 'sliding', isSet = false, program, mostHours } = options;
  const world = await World.open({
    server,
    limits: { create: perHour, window },
    mayDie: options.killAtCreate !== undefined,
    ...(program && { program }),
    ...(isSet && { env: { CREATES_PER_HOUR: String(perHour) } }),
  });
  try {
    const orders = ordersOf(jobs, options.priorityOf);
    const killed = armKill(world, options.killAtCreate);
    await world.start(orders);
    const isDone = () => world.createdCount(PROJECT) >= jobs;
    const endsAt = world.time.latest + mostHours * HOUR_MS;
    await world.passUntil(() => isDone() || killed.write !== null, mostHours * HOUR_MS);
    if (killed.write) {
      await world.startWorker();
      // The server must notice that the worker is gone.
      await world.passUntil(() => false, 3 * 60_000);
      await world.adopt(killed.write);
      await world.passUntil(isDone, endsAt - world.time.latest);
    }
    // Those that were created are read, and end.
    await world.passUntil(() => false, 5 * 60_000);
    return await resultOf(world, orders, program === undefined);
  } finally {
    await world.close();
  }
}

function ordersOf(jobs: number, priorityOf = (index: number) => (((index * 7) % 5) + 1) as Priority): JobOrder[] {
  return Array.from({ length: jobs }, (_, i) => ({ projectId: PROJECT, name: `job ${i}.`, priority: priorityOf(i) }));
}

function armKill(world: World, killAtCreate: number | undefined): { write: SeenRequest | null } {
  const killed: { write: SeenRequest | null } = { write: null };
  world.upstream.onAccepted = (door, write) => {
    if (killed.write || world.createdCount(PROJECT) !== killAtCreate) return true;
    killed.write = write;
    world.killWorker(door);
    return false;
  };
  return killed;
}

async function resultOf(world: World, orders: readonly JobOrder[], hasQueue: boolean): Promise<CrowdResult> {
  const startTimes = await world.startTimes(orders);
  const wanted = orders.map(({ name, priority = 3 }) => ({ name, priority, startedAt: startTimes.get(name) ?? 0 }));
  const seen = world.creates(PROJECT);
  const queue = hasQueue ? await world.queueCost(PROJECT) : null;
  return {
    ...crowdFigures(wanted, seen),
    outcomes: await world.outcomes(orders),
    dearestWait: await dearestWait(world, orders, startTimes, seen),
    queue: queue && { events: queue.historyEvents, actions: queue.billableActions, runs: queue.runs },
  };
}

async function dearestWait(
  world: World,
  orders: readonly JobOrder[],
  startTimes: ReadonlyMap<string, number>,
  seen: readonly SeenRequest[],
): Promise<WaitCost> {
  const dearest: WaitCost = { events: 0, actions: 0, prompts: 0 };
  const createdAt = new Map(seen.filter(({ status }) => status < 300).map(({ what, at }) => [what, at]));
  for (const order of orders) {
    const waitedMs = (createdAt.get(order.name) ?? 0) - (startTimes.get(order.name) ?? 0);
    if (waitedMs < HOUR_MS - 60_000) continue;
    const { historyEvents, billableActions, prompts, actions } = await world.cost(order);
    // A decision of a person costs its own.
    if (actions.updates > 0) continue;
    dearest.events = Math.max(dearest.events, historyEvents - ALONE.events);
    dearest.actions = Math.max(dearest.actions, billableActions - ALONE.actions);
    dearest.prompts = Math.max(dearest.prompts, prompts - ALONE.prompts);
  }
  return dearest;
}
