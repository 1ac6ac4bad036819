/**
 * One attempt of `pollJob` without a server, which may end after its function has: its outcome, and its last heartbeat
 * details.
 */
import { CompleteAsyncError, type Info } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { defaultDataConverter, defaultFailureConverter, defaultPayloadConverter } from '@temporalio/common';
import type { ApplicationFailure, Payload, ProtoFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import type { PollJobInput, PollJobResult } from '../../src/activities/agent-job/poll-attempt.js';
import { record } from './scripted-upstream.js';

/** A batch of a job that is active, in nothing special. */
export function pollInput(differences: Partial<PollJobInput> = {}): PollJobInput {
  return {
    projectId: 'p1',
    jobId: 'job-1',
    plan: { minMs: 20, maxMs: 20, ratio: 0 },
    known: record(),
    lastChangeAt: 0,
    deadlineAt: null,
    candidate: null,
    settleMs: 30_000,
    followUpsTaken: 0,
    brokenAt: null,
    failures: 0,
    isFailing: false,
    troubleReportsFrom: 0,
    pauseMs: 0,
    notFound: null,
    maxReads: 60,
    ...differences,
  };
}

export interface HeldAttempt {
  result?: PollJobResult;
  error?: Partial<ApplicationFailure>;
  /** The last details that it left, in a heartbeat or with its failure. */
  kept: unknown;
  wasCancelled?: boolean;
}

interface Failed {
  failure: ProtoFailure;
  lastHeartbeatDetails: { payloads: Payload[] };
}

export interface HeldAttemptOptions {
  info?: Partial<Info>;
  /** What the server answers the next calls: an error, or nothing. */
  answers?: (Error | undefined)[];
  onHeartbeat?: (details: unknown) => void;
}

export function runAttempt(
  pollJob: (input: PollJobInput) => Promise<PollJobResult>,
  input: PollJobInput,
  { info = {}, answers = [], onHeartbeat = () => {} }: HeldAttemptOptions = {},
): Promise<HeldAttempt> {
  let kept: unknown = null;
  const heartbeat = (details: unknown) => {
    kept = details;
    onHeartbeat(details);
  };
  return new Promise((resolve) => {
    const answer = async () => {
      const next = answers.shift();
      if (next) throw next;
      return Promise.resolve();
    };
    const client = {
      options: {
        namespace: 'default',
        identity: 'test',
        loadedDataConverter: {
          payloadConverter: defaultPayloadConverter,
          failureConverter: defaultFailureConverter,
          payloadCodecs: defaultDataConverter.payloadCodecs ?? [],
        },
      },
      withAbortSignal: (_: AbortSignal, work: () => Promise<unknown>) => work(),
      withDeadline: (_: number, work: () => Promise<unknown>) => work(),
      activity: {
        complete: (_: Uint8Array, result: PollJobResult) => answer().then(() => resolve({ result, kept })),
        heartbeat: (_: Uint8Array, details: unknown) => (heartbeat(details), answer()),
        reportCancellation: () => answer().then(() => resolve({ wasCancelled: true, kept })),
      },
      connection: {
        workflowService: {
          respondActivityTaskFailed: ({ failure, lastHeartbeatDetails }: Failed) => {
            const [details] = lastHeartbeatDetails.payloads;
            kept = defaultPayloadConverter.fromPayload(details!);
            const { type, nextRetryDelay } = failure.applicationFailureInfo ?? {};
            const { seconds = 0, nanos = 0 } = nextRetryDelay ?? {};
            const delayMs = Number(seconds) * 1_000 + (nanos ?? 0) / 1_000_000;
            const error = { message: failure.message!, type: type!, nextRetryDelay: delayMs };
            return answer().then(() => resolve({ error, kept }));
          },
        },
      },
    };
    const options = { attempt: 1, currentAttemptScheduledTimestampMs: Date.now(), heartbeatTimeoutMs: 50_000, ...info };
    const environment = new MockActivityEnvironment(options, { client: client as unknown as Client });
    environment.on('heartbeat', heartbeat);
    (environment.run(pollJob, input) as Promise<PollJobResult>).then(
      (result) => resolve({ result, kept }),
      (error: Partial<ApplicationFailure>) => {
        if (!(error instanceof CompleteAsyncError)) resolve({ error, kept });
      },
    );
  });
}
