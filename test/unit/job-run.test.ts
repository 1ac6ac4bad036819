import { expect, test } from 'vitest';
import { parseJobInput } from '../../src/agent-job/input.js';
import { noFollowUps } from '../../src/workflows/agent-job/follow-up-queue.js';
import { JobRun } from '../../src/workflows/agent-job/job-run.js';
import { firstPollData } from '../../src/workflows/agent-job/poll-findings.js';
import type { RunData } from '../../src/workflows/agent-job/job-run.js';
import { inDoubt as inDoubtOutcome } from '../support/outcomes.js';

const MINUTE = 60_000;

/** A run in which follow-up `a` was sent after the job had ended, and is in doubt; `pass` lets time pass. */
function inDoubt() {
  let now = Date.parse('2026-01-01T00:00:00.000Z');
  const spec = parseJobInput({ projectId: 'p1', jobId: 'j', deadline: 10 * MINUTE, linger: 60 * MINUTE });
  const data = {
    jobId: 'j',
    deadline: { base: now, stoodStillMs: 0, hasExpired: false },
    polls: { ...firstPollData(now), endedAt: now },
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
  return { settledAt: polls.known.settledAt, endsAtTerminal: false } as never;
}

test('the clock that stands still while a person is needed does so from a job’s revival on, too', () => {
  const { run, now, pass } = inDoubt();
  pass(30 * MINUTE);
  const job = { id: 'j', status: 'active', source: null, model: null, prLink: null, createdAt: null, archivedAt: null };
  const result = { reads: 1, failures: 0, isAtDeadline: false };
  run.observe({ reading: { kind: 'record', job }, ...result }, pollInput(run));
  pass(5 * MINUTE);
  run.resolveUnknown({ action: 'retry' });
  expect(run.deadlineAt - now()).toBe(10 * MINUTE);
});
