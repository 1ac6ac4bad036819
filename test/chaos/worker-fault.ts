import { fileURLToPath } from 'node:url';
import { Draw } from './draw.js';

/** The moments of a write at which a fault can be injected, in their order. */
const MOMENTS = [
  'headersSent',
  'bodyBegun',
  'beforeFence',
  'afterFence',
  'bodySent',
  'responseBegun',
  'responseRead',
] as const;
/**
 * `kill`; `freeze`: SIGSTOP for so many seconds, within the time to send (10 s), past it, or past the attempt (30 s);
 * `sleep` and `suspend`: the same stop, during which the process's monotonic clock, or all of its clocks, stand still.
 */
const ACTIONS = ['kill', 'freeze3', 'freeze12', 'freeze40', 'sleep40', 'suspend40'] as const;

export interface WorkerFault {
  moment: string;
  action: string;
  /** Injected when the process reaches the moment for the nth time. */
  nth: number;
}

interface WorkerFaultPlan {
  seed: number;
  /** Each worker gets a fault at one of its first writes, up to this number. */
  workerFaultWithin: number;
  suspends: boolean;
}

/**
 * The faults of the workers in turn: each moment with each action before any repeats, and the fence's lost response.
 */
export function planWorkerFaults({
  seed,
  workerFaultWithin,
  suspends,
}: WorkerFaultPlan): (turn: number) => WorkerFault {
  const kinds = MOMENTS.flatMap((moment) =>
    ACTIONS.map((action) => ({ moment: moment as string, action: action as string })),
  )
    .filter(({ action }) => suspends || !/sleep|suspend/.test(action))
    // This is what remains: see docs/guarantees.md.
    .filter(({ moment, action }) => !(moment === 'afterFence' && action === 'suspend40'));
  const all = new Draw(seed, 'sabotage').shuffled([...kinds, { moment: 'fenceResponse', action: 'lose' }]);
  return (turn) => {
    const { moment, action } = all[turn % all.length]!;
    return { moment, action, nth: new Draw(seed, `workerFault ${turn}`).between(1, workerFaultWithin) };
  };
}

/** What node takes to load the workerFault before the worker. */
export function workerFaultArguments({ moment, action, nth }: WorkerFault, logFile: string): string[] {
  const url = new URL('./inject-worker-fault.mjs', import.meta.url);
  url.search = new URLSearchParams({ moment, action, nth: String(nth), log: logFile }).toString();
  return ['--import', url.href];
}

export const workerProgram = fileURLToPath(new URL('../../dist/worker.js', import.meta.url));
export const sandboxProgram = fileURLToPath(new URL('../../dist/sandbox/main.js', import.meta.url));
