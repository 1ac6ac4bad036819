/** Jobs beside a crowd: those of high priority that come late, and the lone one of a project that is idle. */
import { billableActions } from '../support/billable-actions.js';
import { World, type JobOrder } from './world.js';

export interface NeighbourOptions {
  /** The program of the time-skipping server. */
  server: string;
  perHour: number;
  /** Jobs of low priority that must wait. */
  waiting: number;
}

export interface NeighbourResult {
  /** What the creates after their start were for, in order: theirs, and those that were under way with them. */
  next: string[];
  nextAt: number[];
  urgent: string[];
  /** Of a lone job before the crowd came, and of one of an idle project beside it. */
  alone: LoneJob;
  beside: LoneJob;
}

interface LoneJob {
  events: number;
  actions: number;
  prompts: number;
  /** The upstream's answers, by operation. */
  requests: Record<string, number[]>;
}

const URGENT = 5;
/** Four turns of a learned budget of 100 are under way at a time, and answered in any order. */
const BESIDE = 3;
const MINUTE_MS = 60_000;
const CROWD = 'crowded';

export async function runNeighbours({ server, perHour, waiting }: NeighbourOptions): Promise<NeighbourResult> {
  const world = await World.open({ server, limits: { create: perHour } });
  try {
    const alone = await loneJob(world, 'quiet');
    await world.start(named('low', perHour + waiting).map((name) => ({ projectId: CROWD, name, priority: 4 })));
    await world.passUntil(() => world.createdCount(CROWD) >= perHour, 10 * MINUTE_MS);
    await world.passUntil(() => false, 5 * MINUTE_MS);
    const urgent = named('urgent', URGENT);
    await world.start(urgent.map((name) => ({ projectId: CROWD, name, priority: 1 })));
    const beside = await loneJob(world, 'idle');
    const created = () => world.creates(CROWD).filter(({ status }) => status < 300);
    await world.passUntil(() => created().length >= perHour + URGENT + BESIDE, 120 * MINUTE_MS);
    const next = created().slice(perHour, perHour + URGENT + BESIDE);
    return { next: next.map(({ what }) => what), nextAt: next.map(({ at }) => at), urgent, alone, beside };
  } finally {
    await world.close();
  }
}

function named(kind: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${kind} ${i}.`);
}

async function loneJob(world: World, projectId: string): Promise<LoneJob> {
  const order: JobOrder = { projectId, name: 'lone.' };
  await world.start([order]);
  await world.passUntil(() => false, MINUTE_MS);
  const { events, prompts } = await world.history(order);
  const requests: Record<string, number[]> = {};
  for (const { operation, status } of world.upstream.seen.filter((one) => one.projectId === projectId)) {
    (requests[operation] ??= []).push(status);
  }
  return { events: events.length, actions: billableActions(events), prompts, requests };
}
