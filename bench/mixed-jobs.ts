/** Jobs of many kinds, whose cost is compared with the server's own counter. */
import { setTimeout as pause } from 'node:timers/promises';
import { concurrently } from '../src/client/concurrently.js';
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
  /** What its caller does after the start. */
  steer?: (job: JobHandle) => Promise<unknown>;
}

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
      await job.followUp('And a test');
    },
  },
  'two follow-ups by update': {
    share: 1,
    script: () => ({ activeMs: 2_000, followUp: 'ignore' }),
    steer: async (job) => {
      await job.sendFollowUp('And a test');
      await job.sendFollowUp('And the docs');
    },
  },
  'a create that is rejected': { share: 1, script: ENDS_AT_ONCE, fault: { status: 403 } },
  'a create that is throttled': { share: 1, script: ENDS_AT_ONCE, fault: { status: 429, retryAfter: 1 } },
  'a create in doubt': {
    share: 1,
    script: ENDS_AT_ONCE,
    fault: { status: 500 },
    steer: async (job) => {
      await untilInDoubt(job);
      await job.resolveUnknown({ action: 'abandon' });
    },
  },
  'cancelled while it is polled': {
    share: 1,
    script: () => ({ activeMs: 3_600_000 }),
    steer: async (job) => {
      await pause(5_000);
      await job.cancel();
    },
  },
} satisfies Record<string, Kind>;

/** Queries are actions that no history shows: the caller counts its own. */
export interface MixedRun {
  workflowIds: string[];
  queries: number;
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
  polling?: { min: number; max: number; ratio: number };
}

/** Jobs that are under way at the same moment: most of them wait. */
const AT_ONCE = 200;
let queries = 0;

/** Runs the jobs, each to its end. */
export async function runMixedJobs(work: MixedWork): Promise<MixedRun> {
  const { control, tag, n, longMs, projects } = work;
  queries = 0;
  const kinds = namesOf(n);
  for (const [name, kind] of Object.entries<Kind>(KINDS)) {
    const promptIncludes = `${tag} ${name}`;
    const count = kinds.filter((one) => one === name).length;
    if (count === 0) continue;
    await control.addScript({ promptIncludes, script: kind.script(longMs) });
    if (kind.fault)
      await control.addFault({ kind: 'status', operation: 'create', promptIncludes, count, ...kind.fault });
  }
  const ran = concurrently(kinds.entries(), { limit: AT_ONCE }, async ([index, name]) => {
    const job = await work.jobs.start({
      key: `${tag}-${index}`,
      projectId: projects[Math.floor(index / 20) % projects.length] ?? 'bench',
      prompt: `${tag} ${name}`,
      settle: 0,
      ...(work.polling && { polling: work.polling }),
    });
    const result = job.result().catch(() => null);
    await (KINDS[name] as Kind).steer?.(job);
    await result;
    return job.workflowId;
  });
  const workflowIds: string[] = [];
  for await (const workflowId of ran) workflowIds.push(workflowId);
  return { workflowIds, queries };
}

/** The kinds of n jobs: each 20 jobs have every kind, mixed. */
function namesOf(n: number): (keyof typeof KINDS)[] {
  const names = Object.entries(KINDS) as [keyof typeof KINDS, Kind][];
  const twenty = names.flatMap(([name, { share }]) => Array.from({ length: share }, () => name));
  return Array.from({ length: n }, (_, i) => twenty[(i * 7) % twenty.length]!);
}

async function untilInDoubt(job: JobHandle): Promise<void> {
  for (;;) {
    queries += 1;
    if ((await job.state()).phase === 'needsAttention') return;
    await pause(500);
  }
}
