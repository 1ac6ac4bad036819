import { fileURLToPath } from 'node:url';
import { Draw } from './draw.js';

/** Where a worker can be struck, in the order in which a write passes them. */
const MOMENTS = [
  'headersSent',
  'bodyBegun',
  'beforeFence',
  'afterFence',
  'bodySent',
  'answerBegun',
  'answerRead',
] as const;
/**
 * Killed; stopped for a moment, past the last moment to send (10 s) or past the whole attempt (30 s); or suspended past
 * it, by the process's monotonic clock alone or by all of its clocks.
 */
const ACTIONS = ['kill', 'freeze3', 'freeze12', 'freeze40', 'sleep40', 'suspend40'] as const;

export interface Sabotage {
  moment: string;
  action: string;
  /** Strikes when the moment comes for the nth time in this process. */
  nth: number;
}

export interface SabotagePlan {
  seed: number;
  /** Each worker is struck at one of its first so many writes; null leaves them alone. */
  sabotageWithin: number | null;
  suspends: boolean;
}

/**
 * What strikes the workers one after the other, each moment with each action before any comes again; the mark's lost
 * answer too.
 */
export function planSabotage({ seed, sabotageWithin, suspends }: SabotagePlan): ((turn: number) => Sabotage) | null {
  if (sabotageWithin === null) return null;
  const kinds = MOMENTS.flatMap((moment) =>
    ACTIONS.map((action) => ({ moment: moment as string, action: action as string })),
  )
    .filter(({ action }) => suspends || !/sleep|suspend/.test(action))
    // This is what remains: see docs/guarantees.md.
    .filter(({ moment, action }) => !(moment === 'afterFence' && action === 'suspend40'));
  const all = new Draw(seed, 'sabotage').shuffled([...kinds, { moment: 'fenceAnswer', action: 'lose' }]);
  return (turn) => {
    const { moment, action } = all[turn % all.length]!;
    return { moment, action, nth: new Draw(seed, `sabotage ${turn}`).between(1, sabotageWithin) };
  };
}

/** What node takes to load the sabotage before the worker. */
export function sabotageArguments({ moment, action, nth }: Sabotage, logFile: string): string[] {
  const url = new URL('./sabotage.mjs', import.meta.url);
  url.search = new URLSearchParams({ moment, action, nth: String(nth), log: logFile }).toString();
  return ['--import', url.href];
}

export const workerProgram = fileURLToPath(new URL('../../dist/worker.js', import.meta.url));
export const sandboxProgram = fileURLToPath(new URL('../../dist/sandbox/main.js', import.meta.url));
