/** A cost as a person reads it. */
import type { CostedWorkflow, JobCost } from './cost-estimate.js';
import { fields, table } from './text.js';

/** The rules that actions are counted by. */
export const COST_SOURCE = 'https://docs.temporal.io/cloud/actions';

type Row = readonly [label: string, value: string];

const KINDS: Record<keyof JobCost['actions'], string> = {
  starts: 'starts',
  activities: 'activities',
  activityRetries: 'activity retries',
  heartbeats: 'heartbeats',
  timers: 'timers',
  signals: 'signals',
  updates: 'updates',
  queueMessages: 'queue messages',
  turnReports: 'turn reports',
  searchAttributeUpserts: 'search attributes',
  memoUpserts: 'memo',
  childWorkflows: 'child workflows',
  sentSignals: 'sent signals',
};
const KIND_NAMES = Object.keys(KINDS) as (keyof JobCost['actions'])[];
/** Kinds that no job has. */
const RARE: readonly string[] = ['childWorkflows', 'sentSignals'] satisfies (keyof JobCost['actions'])[];

/** The cost of a job, or of all jobs of a batch. */
export function costText(whose: readonly Row[], cost: JobCost, notes: Iterable<string>): string {
  const lines = fields([
    ...whose,
    ['Runs', String(cost.runs)],
    ['History events', String(cost.historyEvents)],
    ['History bytes', String(cost.historyBytes)],
    ['Reads', String(cost.reads)],
    ['Billable actions', `${cost.billableActions} (estimated by ${COST_SOURCE})`],
    ...KIND_NAMES.filter((kind) => cost.actions[kind] > 0 || !RARE.includes(kind)).map(
      (kind) => [`  ${KINDS[kind]}`, String(cost.actions[kind])] as const,
    ),
  ]);
  return [lines, ...notesText(notes)].join('\n');
}

/** What the workflows of one type cost together. */
export interface TypeCost {
  workflow: CostedWorkflow;
  count: number;
  cost: JobCost;
}

/** The cost of a project: by type, and by kind of action. */
export function projectCostText(
  whose: readonly Row[],
  { byType, sum }: { byType: readonly TypeCost[]; sum: JobCost },
  notes: Iterable<string>,
): string {
  const jobs = byType.find(({ workflow }) => workflow === 'agentJob')?.count ?? 0;
  const total = { workflow: 'all', count: byType.reduce((all, { count }) => all + count, 0), cost: sum };
  const types = table(
    ['WORKFLOW', 'COUNT', 'RUNS', 'EVENTS', 'BYTES', 'ACTIONS', 'ACTIONS EACH'],
    [...byType, total].map(({ workflow, count, cost }) => [
      workflow,
      ...[count, cost.runs, cost.historyEvents, cost.historyBytes, cost.billableActions].map(number),
      perOne(cost.billableActions, count),
    ]),
  );
  const kinds = table(
    ['BILLABLE ACTIONS', 'ALL', ...(jobs > 0 ? ['PER JOB'] : [])],
    KIND_NAMES.filter((kind) => sum.actions[kind] > 0).map((kind) => {
      const all = sum.actions[kind];
      return [KINDS[kind], number(all), ...(jobs > 0 ? [perOne(all, jobs)] : [])];
    }),
  );
  const counted = `(estimated by ${COST_SOURCE})`;
  return [`${fields(whose)}\n`, `${types}\n`, kinds, counted, ...notesText(notes)].join('\n');
}

/** `1,234`. */
export function number(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

function perOne(value: number, count: number): string {
  return (value / count).toFixed(1);
}

function notesText(notes: Iterable<string>): string[] {
  return [...notes].map((note) => `(${note})`);
}
