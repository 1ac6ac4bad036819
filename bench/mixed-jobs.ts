/** Jobs of many kinds, whose cost is compared with the server's own counter. */
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { concurrently } from '../src/client/concurrently.js';
import { SEARCH_ATTRIBUTE } from '../src/contract.js';
import type { AgentJobs, JobHandle } from '../src/starter.js';
import type { SandboxControl } from '../src/testing.js';

type Script = Parameters<SandboxControl['setScript']>[0];

/** One kind of job in a mix. */
interface Kind {
  /** Of 20 jobs. */
  share: number;
  /** Its life upstream, by the length of the run's longer jobs. */
  script: (longMs: number) => Script;
  /** The status that the create is answered with, once. */
  fault?: { status: number; retryAfter?: number };
  /** Has a project of its own: a queue learns from answers 429, and would hold the others back for an hour. */
  isAlone?: boolean;
  /** What its caller does after the start. */
  steer?: (job: JobHandle, jobs: AgentJobs) => Promise<unknown>;
}

const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
/** A busy machine answers late. */
const PATIENT = { timeoutMs: 120_000 };
const ENDS_AT_ONCE = () => ({ activeMs: 10 });

/** Each name is a part of the prompts of its jobs. */
const KINDS = {
  'one poll': { share: 6, script: ENDS_AT_ONCE },
  'several polls': { share: 4, script: () => ({ activeMs: 6_000 }) },
  'many polls': { share: 2, script: (longMs) => ({ activeMs: longMs }) },
  'fails upstream': {
    share: 1,
    script: () => ({ steps: [{ status: 'active' }, { status: 'failed', afterMs: 2_500 }] }),
  },
  'a follow-up in a wait': {
    share: 2,
    script: (longMs) => ({ activeMs: longMs, followUp: 'ignore' }),
    steer: async (job) => {
      await pause(3_000);
      await job.followUp('And a test', PATIENT);
    },
  },
  'two follow-ups by update': {
    share: 1,
    script: () => ({ activeMs: 2_000, followUp: 'ignore' }),
    steer: async (job) => {
      await job.sendFollowUp('And a test', PATIENT);
      await job.sendFollowUp('And the docs', PATIENT);
    },
  },
  'a create that is rejected': { share: 1, script: ENDS_AT_ONCE, fault: { status: 403 } },
  'a create that is throttled': {
    share: 1,
    script: ENDS_AT_ONCE,
    fault: { status: 429, retryAfter: 1 },
    isAlone: true,
  },
  'a create in doubt': {
    share: 1,
    script: ENDS_AT_ONCE,
    fault: { status: 500 },
    steer: async (job, jobs) => {
      await untilInDoubt(jobs, job);
      await job.resolve({ action: 'abandon' }, PATIENT);
    },
  },
  'cancelled while it is polled': {
    share: 1,
    script: () => ({ activeMs: 3_600_000 }),
    steer: async (job) => {
      await pause(5_000);
      await job.cancel(PATIENT);
    },
  },
} satisfies Record<string, Kind>;
type KindName = keyof typeof KINDS;

export interface MixedRun {
  workflowIds: string[];
  projects: string[];
}

export interface MixedWork {
  jobs: AgentJobs;
  control: Pick<SandboxControl, 'addScript' | 'addFault'>;
  projects: readonly string[];
  /** Distinguishes this run's keys and prompts. */
  tag: string;
  n: number;
  /** How long the longer jobs are active. */
  longMs: number;
}

/** Jobs that are under way at the same moment: most of them wait. */
const AT_ONCE = 300;
/** Bounds the whole run: a job that does not end is an error. */
const MOST_MS = 20 * 60_000;

/** Runs the jobs, each to its end. */
export async function runMixedJobs(work: MixedWork): Promise<MixedRun> {
  const { control, tag, n, longMs, projects } = work;
  const kinds = namesOf(n);
  for (const [name, kind] of Object.entries(KINDS) as [KindName, Kind][]) {
    const promptIncludes = `${tag} ${name}`;
    if (kinds.includes(name)) await control.addScript({ promptIncludes, script: kind.script(longMs) });
  }
  const used = new Set<string>();
  const signal = AbortSignal.timeout(MOST_MS);
  setMaxListeners(0, signal);
  const ran = concurrently(kinds.entries(), { limit: AT_ONCE, signal }, async ([index, name]) => {
    const kind: Kind = KINDS[name];
    const shared = projects[Math.floor(index / 20) % projects.length] ?? 'bench';
    const projectId = kind.isAlone ? `${shared} ${index}` : shared;
    used.add(projectId);
    // Of its own: a job that asks again meets no other's fault. The full stop ends the number.
    const prompt = `${tag} ${name} ${index}.`;
    if (kind.fault) {
      await control.addFault({ kind: 'status', operation: 'create', promptIncludes: prompt, count: 1, ...kind.fault });
    }
    const request = { key: `${tag}-${index}`, projectId, prompt, settle: 0 };
    const job = await work.jobs.start(request, PATIENT);
    const result = job.result({ signal }).catch(() => signal.throwIfAborted());
    await kind.steer?.(job, work.jobs);
    await result;
    return job.workflowId;
  });
  const workflowIds: string[] = [];
  for await (const workflowId of ran) workflowIds.push(workflowId);
  return { workflowIds, projects: [...used] };
}

/** The kinds of n jobs: each 20 jobs have every kind, mixed. */
function namesOf(n: number): KindName[] {
  const names = Object.entries(KINDS) as [KindName, Kind][];
  const twenty = names.flatMap(([name, { share }]) => Array.from({ length: share }, () => name));
  return Array.from({ length: n }, (_, i) => twenty[(i * 7) % twenty.length]!);
}

/** By a description: a query would be an action that no history shows. */
async function untilInDoubt({ client }: AgentJobs, { workflowId }: JobHandle): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  while ((await handle.describe()).typedSearchAttributes.get(PHASE) !== 'needsAttention') await pause(500);
}
