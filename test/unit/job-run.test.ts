import { expect, test } from 'vitest';
import { parseAttribution, parseJobInput } from '../../src/agent-job/input.js';
import type { Decision, InDoubtWrite } from '../../src/contract.js';
import { jsonBytes } from '../../src/contract/shared.js';
import { leftAt, restart } from '../../src/workflows/agent-job/deadline.js';
import { noFollowUps } from '../../src/workflows/agent-job/follow-up-queue.js';
import { JobRun, withDecision, type RunData } from '../../src/workflows/agent-job/job-run.js';
import { beginWrite } from '../../src/workflows/agent-job/write.js';
import { afterEvent } from '../../src/workflows/agent-job/write-transitions.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { firstPollData } from '../../src/workflows/agent-job/poll-findings.js';
import { inDoubt as inDoubtOutcome } from '../support/outcomes.js';

const MINUTE = 60_000;

/** A run whose job has ended; follow-up `a` came with the end and is in doubt. `pass` lets time pass. */
function inDoubt() {
  let now = Date.parse('2026-01-01T00:00:00.000Z');
  const spec = parseJobInput({ projectId: 'p1', jobId: 'j', deadline: 10 * MINUTE });
  const candidate = { end: 'completed', prLink: null, since: now, hasStood: true } as const;
  const data = {
    jobId: 'j',
    deadline: restart(now + 10 * MINUTE),
    polls: { ...firstPollData(now), candidate },
    write: null,
    decisions: [],
  };
  const run = new JobRun(spec, data as unknown as RunData, noFollowUps([]), () => now);
  run.followUps.add({ id: 'a', prompt: 'go', askedAt: now });
  run.beginWrite({ kind: 'followUp', followUpId: 'a', askedAt: now, requiresConfirmation: false });
  run.apply({ kind: 'send' });
  run.apply({ kind: 'sendEnded', outcome: inDoubtOutcome('no answer'), beganAt: now });
  return { run, now: () => now, pass: (ms: number) => (now += ms) };
}

function pollInput({ polls }: JobRun) {
  return { followUpsTaken: polls.known.followUpsTaken } as never;
}

test('the clock stands still while a person is needed, also if the job goes on meanwhile', () => {
  const { run, now, pass } = inDoubt();
  pass(30 * MINUTE);
  const job = { id: 'j', status: 'active', source: null, model: null, prLink: null, createdAt: null, archivedAt: null };
  const result = { reads: 1, failures: 0, isAtDeadline: false };
  run.polls.observe({ reading: { kind: 'record', job, end: null, counts: false }, ...result }, pollInput(run));
  pass(5 * MINUTE);
  run.resolveUnknown({ action: 'retry' });
  expect(leftAt(run.deadline, now())).toBe(10 * MINUTE);
});

test('a cancellation that comes while a closed run leaves its queue changes nothing any more', () => {
  const { run } = inDoubt();
  run.resolveUnknown({ action: 'abandon' });
  run.expire();
  run.close();
  run.isCancelRequested = true;
  expect(run.ending()).toEqual({ kind: 'timedOut' });
});

test('the time to decide runs from the first send in doubt, also if a later one must not be sent again', () => {
  let now = Date.parse('2026-01-01T00:00:00.000Z');
  const firstAt = now;
  const spec = parseJobInput({ projectId: 'p1', jobId: 'j', onUnknownOutcome: 'retry', decideWithin: 60 * MINUTE });
  const situation = () => ({ spec, now, startedAt: 0, isCancelRequested: false });
  let write = beginWrite({ kind: 'followUp', followUpId: 'a', askedAt: now, requiresConfirmation: false });
  for (const outcome of [inDoubtOutcome('no answer'), { ...inDoubtOutcome('no job in it'), asksBeforeRetry: true }]) {
    write = afterEvent(write, { kind: 'send' }, situation());
    write = afterEvent(write, { kind: 'sendEnded', outcome: outcome as WriteOutcome, beganAt: now }, situation());
    now += 30 * MINUTE;
  }
  expect(write.state).toMatchObject({ kind: 'inDoubt', decideBy: firstAt + 60 * MINUTE });
});

const SINCE = '2026-01-01T00:00:00.000Z';
const create: InDoubtWrite = { kind: 'create', reason: 'reset', since: SINCE, lookAfter: SINCE };
const followUp: InDoubtWrite = { ...create, kind: 'followUp', followUpId: 'a' };

test('a decision says what was decided about which write, by whom, why and when', () => {
  const adopt = { action: 'adopt', jobId: 'job-1', by: 'ann@host', note: 'seen' } as const;
  const first = withDecision([], adopt, create, Date.parse(SINCE));
  expect(withDecision(first, { action: 'retry', by: null, note: null }, followUp, Date.parse(SINCE))).toEqual([
    { action: 'adopt', kind: 'create', jobId: 'job-1', by: 'ann@host', note: 'seen', at: SINCE },
    { action: 'retry', kind: 'followUp', followUpId: 'a', at: SINCE },
  ]);
});

test('the last 100 decisions are kept, with the longest plain texts that are accepted', () => {
  let kept: Decision[] = [];
  const longest = { by: 'b'.repeat(200), note: 'n'.repeat(1_000) };
  const write = { ...followUp, followUpId: 'f'.repeat(256) };
  for (let at = 0; at < 150; at++) kept = withDecision(kept, { action: 'retry', ...longest }, write, at);
  expect(kept).toHaveLength(100);
  expect(kept.at(0)?.at).toBe(new Date(50).toISOString());
  expect(kept.at(-1)).toMatchObject({ ...longest, at: new Date(149).toISOString() });
});

test('texts that JSON makes longer push out older decisions, and never the last', () => {
  let kept: Decision[] = [];
  const write = { ...followUp, followUpId: '\u0001'.repeat(256) };
  for (let at = 0; at < 150; at++) kept = withDecision(kept, { action: 'retry', note: '"'.repeat(1_000) }, write, at);
  expect(jsonBytes(kept)).toBeLessThanOrEqual(200_000);
  expect(kept.length).toBeGreaterThan(50);
  expect(kept.at(-1)?.at).toBe(new Date(149).toISOString());
});

test('a note may have several lines, and both may be left out', () => {
  const attribution = { by: 'é'.repeat(100), note: 'one\r\n\ttwo 😀' };
  expect(parseAttribution({ ...attribution, other: 1 })).toEqual(attribution);
  expect(parseAttribution({ by: null })).toEqual({});
});
