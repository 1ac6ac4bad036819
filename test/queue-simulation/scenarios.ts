/** What is promised of the queue, each as a scenario with its figures and with what must hold of them. */
import { ALONE, runCrowd, type CrowdResult } from './crowd.js';
import { runNeighbours } from './neighbours.js';

/** One scenario's result: its figures, and in words what did not hold. */
interface Finding {
  figures: unknown;
  broken: string[];
}

interface ScenarioOptions {
  /** The program of the time-skipping server. */
  server: string;
  /** How many times smaller than promised; default 1. */
  shrink?: number;
}

export interface Scenario {
  title: string;
  run(options: ScenarioOptions): Promise<Finding>;
}

/** So many creates an hour the upstream takes. */
const PER_HOUR = 100;
/** What the queue promises; see docs/promises.md. */
const MOST = { throttledInAnHour: 3, share: 1.03, eventsOfAWait: 20, actionsOfAWait: 6, overtakenBySeconds: 120 };
/** In a day that goes as the queue expects: later than the time it was told, and at first after six hours. */
const MOST_ASKS_AGAIN = 2;
/** What it costs to ask again: an activity, and a timer. */
const ASK_AGAIN = { events: 11, actions: 4 };
const QUIET_HOURS = 6;
/** In the first hour eight at once from each of three workers, and eight probes. */
const MOST_IN_FIRST_HOUR = 3 * 8 + 8;

const scaled = (count: number, { shrink = 1 }: ScenarioOptions) => Math.ceil(count / shrink);

function crowd(window: 'sliding' | 'fixed', isSet: boolean): Scenario['run'] {
  return async (options) => {
    const perHour = scaled(PER_HOUR, options);
    const jobs = 3 * perHour;
    const killAtCreate = Math.ceil(1.5 * perHour);
    const { server } = options;
    const figures = await runCrowd({ server, jobs, perHour, window, isSet, killAtCreate, mostHours: 4 });
    return { figures, broken: [...brokenOf(figures, 2), ...(isSet ? throttledAtAll(figures) : [])] };
  };
}

/** Which promises a crowd's figures break that needs so many hours at least. */
function brokenOf(figures: CrowdResult, leastHours: number): string[] {
  const { jobs, created, doubled, throttledByHour, unansweredQueries, hours, overtakenBySeconds, outcomes } = figures;
  return told([
    [created === jobs && doubled === 0, `created ${created} of ${jobs}, ${doubled} of them twice`],
    [outcomes['completed'] === jobs, `outcomes: ${JSON.stringify(outcomes)}`],
    [isWithin(throttledByHour, unansweredQueries), `answers 429 of each hour: ${throttledByHour.join(', ')}`],
    [hours !== null && hours <= leastHours * MOST.share, `took ${hours} hours of ${leastHours}`],
    [overtakenBySeconds <= MOST.overtakenBySeconds, `one was overtaken by ${overtakenBySeconds} s`],
    ...waitChecks(figures, leastHours > QUIET_HOURS ? MOST_ASKS_AGAIN : 0),
  ]);
}

/** One whose question to the queue gets no answer asks the upstream: not the queue's doing, but that server's. */
function isWithin([first = 0, ...later]: readonly number[], unanswered: number): boolean {
  const tooMany = later
    .map((count) => Math.max(0, count - MOST.throttledInAnHour))
    .reduce((sum, count) => sum + count, 0);
  return first <= MOST_IN_FIRST_HOUR && tooMany <= unanswered;
}

/** A job that is answered 429 with its turn waits twice. */
function waitChecks({ jobs, waits: { quiet, refused } }: CrowdResult, asksAgain: number): [boolean, string][] {
  const dear = ({ events, actions, prompts }: typeof quiet.most) =>
    `${events} events, ${actions} actions, ${prompts} prompts`;
  const isCheap = ({ events, actions, prompts }: typeof quiet.most, waits: number) =>
    events <= waits * MOST.eventsOfAWait + asksAgain * ASK_AGAIN.events &&
    actions <= waits * MOST.actionsOfAWait + asksAgain * ASK_AGAIN.actions &&
    prompts <= waits + asksAgain;
  return [
    [quiet.jobs + refused.jobs >= jobs / 3, `only ${quiet.jobs + refused.jobs} waited for an hour`],
    [isCheap(quiet.most, 1), `a wait cost ${dear(quiet.most)}`],
    [isCheap(refused.most, 1 + refused.mostRefusals), `a wait with answers 429 cost ${dear(refused.most)}`],
  ];
}

function throttledAtAll({ throttled }: CrowdResult): string[] {
  return told([[throttled === 0, `${throttled} answers 429 though the budget is set`]]);
}

function told(checks: readonly [holds: boolean, otherwise: string][]): string[] {
  return checks.flatMap(([holds, otherwise]) => (holds ? [] : [otherwise]));
}

/** By the names under which `main.ts` runs them. */
export const SCENARIOS: Record<string, Scenario> = {
  sliding: { title: 'three hours’ worth of creates at once, the budget a sliding hour', run: crowd('sliding', false) },
  fixed: { title: 'the same, the budget one of each clock hour', run: crowd('fixed', false) },
  set: { title: 'the same, sliding, and CREATES_PER_HOUR is set', run: crowd('sliding', true) },
  deadline: {
    title: 'more creates than a day takes, with the default deadline of a day',
    async run(options) {
      const [jobs, perHour] = [scaled(2_500, options), scaled(PER_HOUR, options)];
      const figures = await runCrowd({ server: options.server, jobs, perHour, priorityOf: () => 3, mostHours: 27 });
      return { figures, broken: brokenOf(figures, 24) };
    },
  },
  neighbours: {
    title: 'late jobs of high priority, and a lone job of an idle project, beside a crowd that waits',
    async run(options) {
      const perHour = scaled(PER_HOUR, options);
      const figures = await runNeighbours({ server: options.server, perHour, waiting: scaled(500, options) });
      const { next, urgent, alone, beside } = figures;

      return {
        figures,
        broken: told([
          [urgent.every((one) => next.includes(one)), `next came ${next.join(' ')}`],
          [isSame(alone, { ...ALONE, requests: alone.requests }), `a lone job: ${JSON.stringify(alone)}`],
          [isSame(beside, alone), `a lone job beside the crowd: ${JSON.stringify(beside)}`],
        ]),
      };
    },
  },
};

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
