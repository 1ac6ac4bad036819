/** The upstream of a scenario: it responds to each call as the scenario says, and reports the call to the model. */
import type { AgentJobInput, JobRecord } from '../../src/contract.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { readJobRecord } from '../../src/upstream/schema.js';
import type { ShownJob, WriteOutcome } from '../../src/contract/write-outcome.js';
import type { Upstream, WriteOptions } from '../../src/upstream/upstream.js';
import { inDoubt, notDelivered, rejected, throttled, unauthorized } from '../support/outcomes.js';
import { mayFinish, TOO_LATE } from '../support/scripted-upstream.js';
import type { PollResponse, SentRecord } from './polls-model.js';
import { LINKS, type FinalRead, type ReadAnswer, type Scenario, type WriteAnswer } from './scenario.js';

/** The calls of the upstream that the model is notified of. */
export interface UpstreamEvents {
  sendBegan(kind: 'create' | 'message', prompt: string): void;
  /** The write is accepted, with this record. */
  sendAnswered(record: SentRecord): void;
  readBegan(): number;
  readEnded(number: number, response: PollResponse): void;
}

interface UpstreamHost extends UpstreamEvents {
  wait(ms: number): Promise<void>;
  /** The worker dies with the call. */
  die(): void;
}

/** The input of the job that a scenario is about. */
export function inputOf(scenario: Scenario): AgentJobInput {
  const { deadline, startWithin, polling, onUnknownOutcome, decideWithin, settle, usedFollowUpIds } = scenario;
  const options = { projectId: 'p', deadline, startWithin, polling, onUnknownOutcome, decideWithin, settle };
  return scenario.isAttached ? { ...options, jobId: 'job-1', usedFollowUpIds } : { ...options, prompt: 'create' };
}

export function modelledUpstream(scenario: Scenario, host: UpstreamHost): Upstream {
  const creates = [...scenario.creates];
  const messages = [...scenario.messages];
  const later = [...scenario.readsAfterMessages];
  let reads = oneByOne(scenario.reads);
  let finalReads = 0;
  let changes = 0;

  const sent = ({ kind, link }: Pick<ReadAnswer, 'kind' | 'link'>): SentRecord => {
    if (kind === 'changed') changes += 1;
    const prLink = link === undefined ? changedLink(changes) : LINKS[link];
    return { status: kind === 'changed' ? 'active' : kind, prLink };
  };

  async function write(
    { kind, prompt }: { kind: 'create' | 'message'; prompt: string },
    answers: WriteAnswer[],
    options: WriteOptions | undefined,
  ): Promise<WriteOutcome> {
    const answer = answers.shift() ?? { kind: 'accepted', takesMs: 0 };
    if (!(await mayFinish(options))) return TOO_LATE;
    host.sendBegan(kind, prompt);
    if (answer.kind === 'workerDies') {
      host.die();
      return new Promise(() => {});
    }
    if (answer.takesMs > 0) await host.wait(answer.takesMs);
    const fault = faultOf(answer);
    if (fault) return fault;
    if (kind === 'message') reads = oneByOne(later.shift()) ?? reads;
    if (answer.kind === 'acceptedUnreadable') return { kind: 'accepted', jobId: 'job-1', job: null };
    const record = sent({ kind: answer.kind === 'acceptedTerminal' ? 'failed' : 'active', ...answer.shown });
    host.sendAnswered(record);
    return { kind: 'accepted', jobId: 'job-1', ...parsed(scenario, record) };
  }

  function nextRead(): ReadAnswer {
    const next = reads?.shift();
    if (next) return next;
    finalReads += 1;
    return { ...finalRead(scenario.finalRead, finalReads), takesMs: 0, times: 1 };
  }

  return {
    createJob: ({ prompt }, options) => write({ kind: 'create', prompt }, creates, options),
    sendMessage: ({ prompt }, options) => write({ kind: 'message', prompt }, messages, options),
    async getJob() {
      const number = host.readBegan();
      const answer = nextRead();
      if (answer.takesMs > 0) await host.wait(answer.takesMs);
      const failure = READ_FAILURES[answer.kind];
      if (failure) {
        const { kind, error } = failure(answer.retryAfterMs);
        host.readEnded(number, {
          kind,
          ...(answer.retryAfterMs !== undefined && { retryAfterMs: answer.retryAfterMs }),
        });
        throw error;
      }
      const record = sent(answer);
      host.readEnded(number, { kind: 'record', record });
      return parsed(scenario, record);
    },
    keyVersion: () => Promise.resolve('a key'),
    getVisitors: () => Promise.reject(new RejectedError('no visitors here', 404, '')),
  };
}

type Failure = (retryAfterMs?: number) => { kind: 'notFound' | 'page404' | 'failed'; error: Error };

/** A poll that fails, by its HTTP status; a page comes from something on the way. */
const failed =
  (status: number, isPage = false): Failure =>
  (retryAfterMs) => ({
    kind: isPage && status === 404 ? 'page404' : 'failed',
    error: new ReadFailedError('broken', status, retryAfterMs, isPage ? 'a page' : undefined, isPage),
  });
const rejectedBy =
  (status: number): Failure =>
  () => ({ kind: 'notFound', error: new RejectedError('no such job', status, '') });

const READ_FAILURES: Partial<Record<ReadAnswer['kind'], Failure>> = {
  notFound: rejectedBy(404),
  gone: rejectedBy(410),
  broken: failed(500),
  unauthorized: failed(401),
  wait: failed(429),
  page403: failed(403, true),
  page404: failed(404, true),
};

function faultOf({ kind, retryAfterMs }: WriteAnswer): WriteOutcome | null {
  switch (kind) {
    case 'rejected':
      return rejected(400, 'no');
    case 'throttled':
      return throttled('later', retryAfterMs);
    case 'notDelivered':
      return notDelivered('no connection');
    case 'unauthorized':
      return unauthorized('the key is refused');
    case 'blocked':
      return { kind: 'blocked', reason: 'a page instead of an answer' };
    case 'inDoubt':
      return inDoubt('reset');
    default:
      return null;
  }
}

function oneByOne(answers: readonly ReadAnswer[] | undefined): ReadAnswer[] | undefined {
  return answers?.flatMap((answer) => Array.from({ length: answer.times }, () => answer));
}

/** Enough of them for ten times `settle`, at one poll a second. */
const MAX_CHANGES = 2_000;

/** What is seen in the end; `flapping` and `newLinks` change with each poll. */
function finalRead(given: FinalRead, number: number): Pick<ReadAnswer, 'kind' | 'link'> {
  const isOver = number > MAX_CHANGES && (given === 'flapping' || given === 'newLinks');
  const kind = isOver ? 'completed' : given;
  if (kind === 'flapping') return { kind: number % 2 === 0 ? 'active' : 'completed' };
  if (kind === 'newLinks') return { kind: 'completed', link: number % 2 === 0 ? 'A' : 'B' };
  return { kind };
}

function changedLink(changes: number): string | null {
  return changes === 0 ? null : `https://github.example/a/b/pull/${changes}`;
}

/** As the upstream's client hands it on. */
function parsed({ furtherEnds }: Scenario, record: SentRecord): { job: JobRecord } & ShownJob {
  const body = Buffer.from(JSON.stringify({ id: 'job-1', ...record }));
  return readJobRecord(body, 'job-1', new Map(Object.entries(furtherEnds)));
}
