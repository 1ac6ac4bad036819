/**
 * The words for what a job does, what it waits for, and how it ends: a table each, of plain data that is the same as
 * JSON. Every list of these words follows from its table, and so do errors, exit codes, and texts for people.
 */
import type { AgentJobsErrorCode } from './errors.js';

interface PhaseRow {
  word: string;
  /** Stands alone. */
  text: string;
}

interface WaitRow {
  word: string;
  /** Whether the deadline stands still while a write waits so. */
  stopsDeadline: boolean;
  /** Whether the search attribute `AgentJobWaitingFor` has it: the other waits are a job's normal life. */
  isShown: boolean;
  /** Follows "the job waits for". */
  text: string;
  /** What a person does about it; null if there is nothing to do. */
  remedy: string | null;
}

interface EndRow {
  word: string;
  /** Who ends the run. */
  by: 'upstream' | 'workflow' | 'person' | 'temporal';
  /** Temporal's status of the run. A run that completed has a result, any other has none. */
  status: 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TERMINATED' | 'TIMED_OUT';
  /** Whether the upstream has a job then. */
  job: 'yes' | 'maybe' | 'no';
  /** The code of the error that our client throws in place of a result. */
  error: AgentJobsErrorCode | null;
  /** How the command line ends that waits for the job. */
  exit: readonly [name: string, code: number];
  /** Follows "the job", or stands alone. */
  text: string;
  /** What a person does about it; null if there is nothing to do. */
  remedy: string | null;
}

const ITSELF = 'it goes on by itself';
const UPSTREAM_REMEDY = 'check UPSTREAM_BASE_URL of the worker, and what is on the way to it';
const SETTINGS_OF_KEYS = 'ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE';
const PERSON_REMEDY = '"npx agent-jobs attention" shows what can be done';
const WAITS_ON = { stopsDeadline: false, isShown: true } as const;
const STANDS_STILL = { stopsDeadline: true, isShown: true } as const;
const NORMAL = { stopsDeadline: false, isShown: false, remedy: null } as const;

const WATCH_ON = 'a job that was made may go on: "npx agent-jobs start --job-id" watches it to its end';
const BY_UPSTREAM = { by: 'upstream', status: 'COMPLETED', job: 'yes', error: null } as const;
const WITHOUT_AN_END = { by: 'workflow', status: 'COMPLETED', job: 'maybe', error: null } as const;
const NOT_CREATED = { by: 'workflow', status: 'FAILED', job: 'no', exit: ['notCreated', 7] } as const;
const BY_TEMPORAL = { by: 'temporal', job: 'maybe', error: 'JOB_TERMINATED', exit: ['canceled', 9] } as const;

/** The three tables. A new wait or end has a row here, and the one place that waits or ends so. */
export const WORDS = {
  phases: [
    { word: 'creating', text: 'being created' },
    { word: 'watching', text: 'at work' },
    { word: 'sending', text: 'takes a follow-up' },
    { word: 'needsAttention', text: 'needs a person' },
    { word: 'done', text: 'over' },
  ],
  waits: [
    { word: 'turn', ...STANDS_STILL, text: 'its turn to send', remedy: ITSELF },
    { word: 'rateLimit', ...STANDS_STILL, text: 'the upstream’s rate limit', remedy: ITSELF },
    { word: 'upstream', ...WAITS_ON, text: 'the upstream, which is tried again and again', remedy: UPSTREAM_REMEDY },
    {
      word: 'key',
      ...WAITS_ON,
      text: 'its key',
      remedy: `give the worker a key that the upstream takes (${SETTINGS_OF_KEYS})`,
    },
    { word: 'person', ...STANDS_STILL, text: 'a person', remedy: PERSON_REMEDY },
    { word: 'poll', ...NORMAL, text: 'its next poll' },
    { word: 'settle', ...NORMAL, text: 'its end to stand' },
  ],
  ends: [
    { word: 'completed', ...BY_UPSTREAM, exit: ['ok', 0], text: 'completed', remedy: null },
    { word: 'archived', ...BY_UPSTREAM, exit: ['ok', 0], text: 'archived', remedy: null },
    { word: 'failed', ...BY_UPSTREAM, exit: ['failed', 3], text: 'failed', remedy: 'its page upstream may say why' },
    {
      word: 'timedOut',
      ...WITHOUT_AN_END,
      exit: ['timedOut', 4],
      text: 'did not end by its deadline',
      remedy: WATCH_ON,
    },
    {
      word: 'lost',
      ...WITHOUT_AN_END,
      exit: ['lost', 5],
      text: 'is not known upstream any more',
      remedy: 'find out upstream whether it was deleted',
    },
    {
      word: 'abandoned',
      ...WITHOUT_AN_END,
      by: 'person',
      exit: ['abandoned', 6],
      text: 'was given up while its create was in doubt',
      remedy: null,
    },
    {
      word: 'Canceled',
      by: 'person',
      status: 'CANCELLED',
      job: 'maybe',
      error: 'JOB_CANCELED',
      exit: ['canceled', 9],
      text: 'was cancelled',
      remedy: WATCH_ON,
    },
    {
      word: 'InvalidInput',
      ...NOT_CREATED,
      error: 'INVALID_INPUT',
      text: 'was not created, for its input is wrong',
      remedy: 'mend the input; the key is free again',
    },
    {
      word: 'CreateRejected',
      ...NOT_CREATED,
      error: 'CREATE_REJECTED',
      text: 'was rejected by the upstream',
      remedy: 'mend what the upstream rejects; the key is free again',
    },
    {
      word: 'UnknownOutcome',
      by: 'workflow',
      status: 'FAILED',
      job: 'maybe',
      error: 'UNKNOWN_OUTCOME',
      exit: ['unknownOutcome', 8],
      text: 'ended with a write in doubt',
      remedy: 'check upstream whether the write arrived before it is sent again',
    },
    { word: 'Terminated', ...BY_TEMPORAL, status: 'TERMINATED', text: 'was terminated', remedy: WATCH_ON },
    {
      word: 'TimedOut',
      ...BY_TEMPORAL,
      status: 'TIMED_OUT',
      text: 'was ended by a time-out of Temporal',
      remedy: WATCH_ON,
    },
  ],
} as const satisfies { phases: readonly PhaseRow[]; waits: readonly WaitRow[]; ends: readonly EndRow[] };

type Words<Rows, Having> = Rows extends readonly [infer Row, ...infer Others]
  ? [...(Row extends Having & { word: infer Word } ? [Word] : []), ...Words<Others, Having>]
  : [];

/** The words of all rows, or of those that have one of these values in a column. */
function wordsOf<
  const Rows extends readonly { word: string }[],
  const Column extends string = never,
  const Value = never,
>(
  rows: Rows,
  column?: Column,
  ...values: readonly Value[]
): Readonly<Words<Rows, { readonly [Name in Column]: Value }>> {
  const isOne = (row: object) => column === undefined || values.includes((row as Record<string, Value>)[column]!);
  return rows.filter(isOne).map(({ word }) => word) as never;
}

/** What a job's workflow is doing. */
export const PHASES = wordsOf(WORDS.phases);
/** One of them. */
export type Phase = (typeof PHASES)[number];

/** What a job may wait for; docs/contract.md says what each means. */
export const WAITING_FOR = wordsOf(WORDS.waits);

/** Values of the search attribute `AgentJobWaitingFor`: the other waits are a job's normal life. */
export const SHOWN_WAITING_FOR = wordsOf(WORDS.waits, 'isShown', true);
/** One of them. */
export type ShownWaitingFor = (typeof SHOWN_WAITING_FOR)[number];

/** The texts of a table by word, for people. */
export function textsOf(rows: readonly { word: string; text: string }[]): Readonly<Record<string, string>> {
  return Object.fromEntries(rows.map(({ word, text }) => [word, text]));
}

/** The row of a wait; none for a word of another release. */
export function waitNamed(word: string): WaitRow | undefined {
  return WORDS.waits.find((wait) => wait.word === word);
}

/** The upstream's statuses that end a job. */
export const TERMINAL_STATUSES = wordsOf(WORDS.ends, 'by', 'upstream');
/** One of them. */
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];

const OUTCOMES = wordsOf(WORDS.ends, 'status', 'COMPLETED');
/** How a job's workflow completed; a failure or a cancellation has no outcome. */
export type Outcome = (typeof OUTCOMES)[number];

/**
 * The label `outcome` of the counter of ended jobs: the outcomes of results, the types of failures, and Temporal's own
 * word for a cancellation.
 */
export const JOB_ENDS = wordsOf(WORDS.ends, 'by', 'upstream', 'workflow', 'person');

/** How jobs end. `Terminated` and `TimedOut` are reported by clients: no workflow can see them. */
export const JOB_OUTCOMES = wordsOf(WORDS.ends);

/** How a job's workflow ended: the outcome of its result, the type of its failure, or what ended it. */
export type JobOutcome = (typeof JOB_OUTCOMES)[number];

/** The row of an end; none for a word of another release. */
export function endNamed(word: string): EndRow | undefined {
  return WORDS.ends.find((end) => end.word === word);
}

const FAILED_ENDS = wordsOf(WORDS.ends, 'status', 'FAILED');
/** The types of the failures that end a job's run, by their names in `FAILURE`. */
export const JOB_FAILURE = Object.fromEntries(
  FAILED_ENDS.map((type) => [type[0]!.toLowerCase() + type.slice(1), type]),
) as {
  readonly [Type in (typeof FAILED_ENDS)[number] as Uncapitalize<Type>]: Type;
};
