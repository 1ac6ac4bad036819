/** A crowd: many jobs of one project at once, more than the upstream takes in an hour. */
import type { Priority } from '../../src/contract.js';
import type { RateLimits } from '../../src/sandbox/access.js';
import { billableActions, countActions } from '../support/billable-actions.js';
import { crowdFigures, type CrowdFigures } from './figures.js';
import type { SeenRequest } from './virtual-upstream.js';
import { World, type JobOrder } from './world.js';

export interface CrowdOptions {
  /** The program of the time-skipping server. */
  server: string;
  jobs: number;
  perHour: number;
  window?: RateLimits['window'];
  /** Default 3. */
  workers?: number;
  /** Workers are told the budget. */
  isSet?: boolean;
  /** The worker that sends the create of this number is killed before it hears the answer; default: none. */
  killAtCreate?: number;
  /** Default: 1 to 5, mixed. */
  priorityOf?: (index: number) => Priority;
  /** The simulation ends after so long. */
  mostHours: number;
}

/** What one that waited cost beyond what it would have cost alone. */
interface WaitCost {
  events: number;
  actions: number;
  prompts: number;
}

/** Of several waits, each figure's median and its greatest. */
interface WaitCosts {
  jobs: number;
  median: WaitCost;
  most: WaitCost;
}

export interface CrowdResult extends CrowdFigures {
  outcomes: Record<string, number>;
  /** Creates that a person had to decide about, because the worker that sent them was killed. */
  inDoubt: number;
  /** What waits of an hour and more cost, of jobs whose worker lived: those never answered 429, and the others. */
  waits: { quiet: WaitCosts; refused: WaitCosts & { mostRefusals: number } };
  unansweredQueries: number;
  /** Of the queue itself; null where there is none. */
  queue: { events: number; actions: number; runs: number };
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const PROJECT = 'crowded';
/** This server knows no priorities: of more at once, the jobs' tasks would keep those of the queue waiting. */
const AT_ONCE = 300;
/** Of a job that need not wait, is read once and ends. */
export const ALONE = { events: 21, actions: 8, prompts: 2 } as const;

export async function runCrowd(options: CrowdOptions): Promise<CrowdResult> {
  const { server, jobs, perHour, window = 'sliding', isSet = false, mostHours } = options;
  const world = await World.open({
    server,
    limits: { create: perHour, window },
    mayDie: options.killAtCreate !== undefined,
    ...(options.workers && { workers: options.workers }),
    ...(isSet && { env: { CREATES_PER_HOUR: String(perHour) } }),
  });
  try {
    const orders = ordersOf(jobs, options.priorityOf);
    const killed = armKill(world, options.killAtCreate);
    for (let i = 0; i < jobs; i += AT_ONCE) {
      if (i > 0) await world.allAsked(PROJECT, i);
      await world.start(orders.slice(i, i + AT_ONCE));
    }
    const isDone = () => world.createdCount(PROJECT) >= jobs;
    const endsAt = world.time.latest + mostHours * HOUR_MS;
    await world.passUntil(() => isDone() || killed.write !== null, mostHours * HOUR_MS);
    let inDoubt = 0;
    if (killed.write) {
      await world.startWorker();
      // The server must notice that the worker is gone.
      await world.passUntil(() => false, 3 * MINUTE_MS);
      inDoubt = await world.settleDoubts(orders);
      await world.passUntil(isDone, endsAt - world.time.latest);
    }
    // Those that were created are read, and end.
    await world.passUntil(() => false, 5 * MINUTE_MS);
    return { ...(await resultOf(world, orders, options)), inDoubt };
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

async function resultOf(
  world: World,
  orders: readonly JobOrder[],
  { killAtCreate }: CrowdOptions,
): Promise<Omit<CrowdResult, 'inDoubt'>> {
  const startTimes = await world.startTimes(orders);
  const wanted = orders.map(({ name, priority = 3 }) => ({ name, priority, startedAt: startTimes.get(name) ?? 0 }));
  const seen = world.creates(PROJECT);
  const queue = await world.queueHistories(PROJECT);
  return {
    ...crowdFigures(wanted, seen),
    outcomes: await world.outcomes(orders),
    unansweredQueries: world.time.unansweredQueries,
    waits: await waitCosts(world, orders, { startTimes, seen, wasKilled: killAtCreate !== undefined }),
    queue: {
      events: queue.flat().length,
      actions: queue.map(billableActions).reduce((total, actions) => total + actions, 0),
      runs: queue.length,
    },
  };
}

async function waitCosts(
  world: World,
  orders: readonly JobOrder[],
  { startTimes, seen, wasKilled }: { startTimes: ReadonlyMap<string, number>; seen: SeenRequest[]; wasKilled: boolean },
): Promise<CrowdResult['waits']> {
  const createdAt = new Map(seen.filter(({ status }) => status < 300).map(({ what, at }) => [what, at]));
  const quiet: WaitCost[] = [];
  const refused: WaitCost[] = [];
  let mostRefusals = 0;
  for (const order of orders) {
    const waitedMs = (createdAt.get(order.name) ?? 0) - (startTimes.get(order.name) ?? 0);
    if (waitedMs < HOUR_MS - MINUTE_MS) continue;
    const cost = await waitCost(world, order, wasKilled);
    const refusals = seen.filter(({ what, status }) => what === order.name && status === 429).length;
    mostRefusals = Math.max(mostRefusals, refusals);
    if (cost) (refusals === 0 ? quiet : refused).push(cost);
  }
  return { quiet: summed(quiet), refused: { ...summed(refused), mostRefusals } };
}

/** Null for one whose worker was killed while it worked for it: an attempt more, or a decision, costs its own. */
async function waitCost(world: World, order: JobOrder, wasKilled: boolean): Promise<WaitCost | null> {
  const { events, prompts } = await world.history(order);
  const actions = countActions(events);
  if (wasKilled && (actions.updates > 0 || actions.activityRetries > 0)) return null;
  return {
    events: events.length - ALONE.events,
    // The report of the turn is a part of the send, and so are the fences of those that were refused.
    actions: billableActions(events) - ALONE.actions - actions.turnReports - (actions.fences - 1),
    prompts: prompts - ALONE.prompts,
  };
}

function summed(costs: readonly WaitCost[]): WaitCosts {
  const at = (share: number) => ({
    events: quantile(costs, 'events', share),
    actions: quantile(costs, 'actions', share),
    prompts: quantile(costs, 'prompts', share),
  });
  return { jobs: costs.length, median: at(0.5), most: at(1) };
}

function quantile(costs: readonly WaitCost[], figure: keyof WaitCost, share: number): number {
  const sorted = costs.map((cost) => cost[figure]).toSorted((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
}
