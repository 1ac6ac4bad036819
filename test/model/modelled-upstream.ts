/** The upstream of a scenario: it responds to each call as the scenario says, and reports the call to the model. */
import type { AgentJobInput, JobRecord } from '../../src/contract.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { shownJob } from '../../src/upstream/shown-job.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import type { Upstream, WriteOptions } from '../../src/upstream/upstream.js';
import { inDoubt, notDelivered, rejected, throttled, unauthorized } from '../support/outcomes.js';
import { mayFinish, TOO_LATE } from '../support/scripted-upstream.js';
import type { ReadOutcome } from './contract-model.js';
import type { ReadAnswer, Scenario, WriteAnswer } from './scenario.js';

/** The calls of the upstream that the model is notified of. */
export interface UpstreamEvents {
  sendBegan(kind: 'create' | 'message', prompt: string): void;
  readBegan(): number;
  readEnded(number: number, outcome: ReadOutcome, status: string | null, retryAfterMs?: number): void;
}

interface UpstreamHost extends UpstreamEvents {
  wait(ms: number): Promise<void>;
  /** The worker dies with the call. */
  die(): void;
}

/** The input of the job that a scenario is about. */
export function inputOf(scenario: Scenario): AgentJobInput {
  const { deadline, startWithin, polling, onUnknownOutcome, decideWithin, settle, linger, usedFollowUpIds } = scenario;
  const options = { projectId: 'p', deadline, startWithin, polling, onUnknownOutcome, decideWithin, settle, linger };
  return scenario.isAttached ? { ...options, jobId: 'job-1', usedFollowUpIds } : { ...options, prompt: 'create' };
}

export function modelledUpstream(scenario: Scenario, host: UpstreamHost): Upstream {
  const creates = [...scenario.creates];
  const messages = [...scenario.messages];
  const reads = scenario.reads.flatMap((read) => Array.from({ length: read.times }, () => read));
  let changes = 0;

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
    const status = answer.kind === 'acceptedTerminal' ? 'failed' : 'active';
    const job = answer.kind === 'acceptedUnreadable' ? null : record(status, changes);
    return faultOf(answer) ?? { kind: 'accepted', jobId: 'job-1', job };
  }

  return {
    createJob: ({ prompt }, options) => write({ kind: 'create', prompt }, creates, options),
    sendMessage: ({ prompt }, options) => write({ kind: 'message', prompt }, messages, options),
    async getJob() {
      const number = host.readBegan();
      const answer: ReadAnswer = reads.shift() ?? { kind: scenario.finalRead, takesMs: 0, times: 1 };
      if (answer.takesMs > 0) await host.wait(answer.takesMs);
      if (answer.kind === 'notFound') {
        host.readEnded(number, 'notFound', null);
        throw new RejectedError('no such job', 404, '');
      }
      const failure = READ_FAILURES[answer.kind];
      if (failure !== undefined) {
        host.readEnded(number, 'failed', null, answer.retryAfterMs);
        throw new ReadFailedError('broken', failure, answer.retryAfterMs);
      }
      if (answer.kind === 'changed') changes += 1;
      const status = answer.kind === 'changed' ? 'active' : answer.kind;
      host.readEnded(number, 'record', status);
      return shownJob(record(status, changes), [], new Map());
    },
    keyVersion: () => Promise.resolve('a key'),
    getVisitors: () => Promise.reject(new RejectedError('no visitors here', 404, '')),
  };
}

/** The HTTP status of the reads that fail. */
const READ_FAILURES: Partial<Record<ReadAnswer['kind'], number>> = { broken: 500, unauthorized: 401, wait: 429 };

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

function record(status: string, changes: number): JobRecord {
  const prLink = changes === 0 ? null : `https://github.example/a/b/pull/${changes}`;
  return { id: 'job-1', status, source: null, model: null, prLink, createdAt: null, archivedAt: null };
}
