import { readFileSync } from 'node:fs';
import { Client, Connection, QueryNotRegisteredError } from '@temporalio/client';
import { expect, test } from 'vitest';
import { toUserError } from '../../src/client/temporal-errors.js';
import * as contract from '../../src/contract.js';
import * as starter from '../../src/starter.js';
import { AgentJobs, AgentJobsError } from '../../src/starter.js';
import { useForFile } from '../support/use.js';
import { startScriptedServer } from './scripted-server.js';

const server = useForFile(startScriptedServer);

const UNKNOWN = { kind: 'create', jobId: null, followUpId: null, reason: 'reset' } as const;

/** One of each class, as the client makes it where nothing special is known. */
const SAMPLES: AgentJobsError[] = [
  new starter.InvalidInputError('prompt', 'must be given'),
  new starter.ConfigError([{ variable: 'TEMPORAL_ADDRESS', problem: 'should be host:port' }]),
  new starter.PayloadKeysError('no key'),
  new starter.TemporalUnavailableError('no answer'),
  new starter.TemporalCallError('refused'),
  new starter.NoWorkerError('w', 'none polls'),
  new starter.JobPausedError('w', 'paused'),
  new starter.JobNotFoundError('w', 'no such workflow'),
  new starter.JobEndedError('w', 'COMPLETED'),
  new starter.KeyConflictError('w', 'another input'),
  new starter.MessageRefusedError('w', 'no'),
  new starter.FollowUpConflictError('w', 'id-1'),
  new starter.FollowUpUnconfirmedError('w', 'id-1', 'lost'),
  new starter.NoJobError('w', 'no job'),
  new starter.UsedIdsUnknownError('w', 'not told'),
  new starter.CreateRejectedError('w', { status: 422, error: 'no' }),
  new starter.UnknownOutcomeError('w', UNKNOWN),
  new starter.JobCanceledError('w', null),
  new starter.JobTerminatedError('w', 'terminated', null),
  new starter.JobFailedError('w', 'odd'),
  new starter.ExportFailedError('w', 'ExportRejected', 'no'),
  new starter.ExportCanceledError('w'),
  new starter.SearchAttributesRefusedError('default', new Error('no')),
];

test('every error class that is exported is an AgentJobsError with a name and a code of its own', () => {
  const exported = Object.values(starter).filter(
    (value) => typeof value === 'function' && value.prototype instanceof Error,
  );
  const bases = [starter.AgentJobsError, starter.AgentJobError];
  expect(new Set([...SAMPLES.map(({ constructor }) => constructor), ...bases])).toEqual(new Set(exported));
  expect(SAMPLES.every((error) => error instanceof AgentJobsError)).toBe(true);
  expect(new Set(SAMPLES.map(({ code }) => code)).size).toBe(SAMPLES.length);
  expect(SAMPLES.map(({ name }) => name)).toEqual(SAMPLES.map(({ constructor }) => constructor.name));
});

test('the root of the client has at most 45 names, and none of what workflows say to each other', () => {
  const names = Object.keys(starter);
  expect(names.length).toBeLessThanOrEqual(45);
  expect(names.filter((name) => name in contract)).toEqual([]);
});

test('the table of errors says what the classes say', () => {
  const page = readFileSync(new URL('../../docs/client.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| `(\w+Error)` +\| `([A-Z_]+)` +\| (yes|no|\[2\]|\[4\])/gm)];
  const told = rows.map(([, name, code, retryable]) => ({ name, code, retryable: retryable === 'yes' }));
  expect(told).toEqual(SAMPLES.map(({ name, code, retryable }) => ({ name, code, retryable })));
});

test('an error without an answer of Temporal is reported as one, whatever was called', async () => {
  // Not closed: the SDK sends requests again after their end.
  const client = new Client({ connection: Connection.lazy({ address: '127.0.0.1:1' }) });
  const jobs = new AgentJobs({ client });
  const limits = { timeoutMs: 300 };
  const job = jobs.handle({ projectId: 'p', key: 'k' });
  const range = { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
  const calls: Record<string, () => Promise<unknown>> = {
    start: () => jobs.start({ projectId: 'p', key: 'k', prompt: 'x' }, limits),
    attach: () => jobs.attach({ projectId: 'p', jobId: 'j' }, limits),
    list: () => first(jobs.list({}, limits)),
    needsAttention: () => first(jobs.needsAttention(limits)),
    stuck: () => first(jobs.stuck(limits)),
    queues: () => first(jobs.queues({}, limits)),
    exportVisitors: () => jobs.exportVisitors(range, limits),
    scheduleExports: () => jobs.scheduleExports({ projectId: 'p' }, limits),
    exportSchedules: () => jobs.exportSchedules(limits),
    state: () => job.state(limits),
    pollNow: () => job.pollNow(limits),
    cancel: () => job.cancel(limits),
    followUpWithId: () => job.followUp('x', { id: 'i', ...limits }),
    followUp: () => job.followUp('x', limits),
    sendFollowUp: () => job.sendFollowUp('x', limits),
    resolve: () => job.resolve({ action: 'retry' }, limits),
    resolveThisOne: () => job.resolve({ action: 'retry', since: '2026-01-01T00:00:00.000Z' }, limits),
  };
  const told = await Promise.all(Object.entries(calls).map(async ([name, call]) => [name, await errorOf(call)]));
  const unavailable = { code: 'TEMPORAL_UNAVAILABLE', retryable: true };
  expect(Object.fromEntries(told)).toEqual({
    ...Object.fromEntries(Object.keys(calls).map((name) => [name, unavailable])),
    followUpWithId: { code: 'FOLLOW_UP_UNCONFIRMED', retryable: true },
    followUp: { code: 'FOLLOW_UP_UNCONFIRMED', retryable: false },
    sendFollowUp: { code: 'FOLLOW_UP_UNCONFIRMED', retryable: false },
    resolve: { ...unavailable, retryable: false },
  });
});

async function first(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items) return;
}

async function errorOf(call: () => Promise<unknown>): Promise<unknown> {
  try {
    await call();
    return 'no error';
  } catch (error) {
    if (!(error instanceof AgentJobsError)) return error;
    return { code: error.code, retryable: error.retryable };
  }
}

test('what a worker answers in place of a state is not blamed on Temporal', async () => {
  const connection = await Connection.connect({ address: server.address });
  const lacksKey = new QueryNotRegisteredError('the payload keys file k.json has no key "2026-11": add it', 3);
  expect(toUserError(new Client({ connection }), lacksKey)).toMatchObject({
    message: 'no worker could answer: the payload keys file k.json has no key "2026-11": add it',
    cause: lacksKey,
  });
  await connection.close();
});
