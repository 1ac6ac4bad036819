/** What a caller may rely on: each step prints one line of JSON. The Python example prints the same. */
import { setTimeout as pause } from 'node:timers/promises';
import {
  AgentJobs,
  CreateRejectedError,
  InvalidInputError,
  JobCanceledError,
  JobTerminatedError,
  KeyConflictError,
  UnknownOutcomeError,
  type JobHandle,
  type StartRequest,
} from 'agent-jobs-client';

// How long an end after a follow-up must stand. With the default of 30 seconds the story would take minutes.
const settle = '1 second';
// How each of these jobs ends is decided by the sandbox upstream, which goes by the key.
const ENDS = ['archived', 'failed', 'timedOut', 'abandoned', 'InvalidInput', 'CreateRejected', 'UnknownOutcome'];
const OPTIONS: Record<string, Partial<StartRequest>> = {
  timedOut: { deadline: '1 second' },
  InvalidInput: { deadline: 'tomorrow' },
  UnknownOutcome: { onUnknownOutcome: 'fail' },
  Canceled: { settle },
};
const FAILURES = {
  InvalidInput: InvalidInputError,
  CreateRejected: CreateRejectedError,
  UnknownOutcome: UnknownOutcomeError,
  Canceled: JobCanceledError,
  Terminated: JobTerminatedError,
};

const projectId = process.argv[2] ?? 'acme';
const jobs = await AgentJobs.connect();
const ticket = { key: 'a (ticket)/1:2', projectId, prompt: 'Schreib «Grüße» 🐍\n', settle };

function report(step: string, facts: object = {}): void {
  console.log(JSON.stringify({ step, ...facts }));
}

/** How a job ends: its outcome, or which failure it is. A wrong input is reported before anything is sent. */
async function endOf(started: Promise<JobHandle>): Promise<string> {
  try {
    return (await (await started).result()).outcome;
  } catch (error) {
    const [type] = Object.entries(FAILURES).find(([, failure]) => error instanceof failure) ?? [];
    if (type === undefined) throw error;
    return type;
  }
}

const start = (key: string) => jobs.start({ key, projectId, prompt: key, ...OPTIONS[key] } as StartRequest);
const others = [...ENDS, 'Terminated'].map((end) => ({
  end,
  started: start(end),
  found: '' as string | Promise<string>,
}));
for (const other of others) if (other.end === 'InvalidInput') other.found = endOf(other.started);
const canceled = await start('Canceled');

const job = await jobs.start(ticket);
report('started', { workflowId: job.workflowId, isNew: job.isNew });
const again = await jobs.start(ticket);
report('repeated while it runs', { workflowId: again.workflowId, isNew: again.isNew });
try {
  await jobs.start({ ...ticket, prompt: 'Another' });
} catch (error) {
  if (error instanceof KeyConflictError) report('another prompt conflicts');
}
const first = await job.sendFollowUp('Add a test', { id: 'test' });
const second = await job.sendFollowUp('Add a test', { id: 'test' });
report('follow-up said twice', { states: [first.state, second.state] });
for await (const { phase, waiting, jobId } of job.watch()) {
  if (waiting === null) continue;
  report('state while it waits', { phase, waitsFor: waiting.for, jobId });
  break;
}
const ended = await job.result();
report('ended', { outcome: ended.outcome, prLink: ended.prLink, jobId: ended.jobId });
const repeated = await jobs.start(ticket);
report('repeated after its end', { workflowId: repeated.workflowId, isNew: repeated.isNew });
const known = await job.sendFollowUp('Add a test', { id: 'test' });
report('used id after the end', { state: known.state });
const [after, twin] = await Promise.all([
  job.sendFollowUp('Add docs', { id: 'docs' }),
  job.sendFollowUp('Add docs', { id: 'docs' }),
]);
report('follow-up after the end', { states: [after.state, twin.state] });
const more = await job.result();
const { outcome, jobId, usedFollowUpIds: usedIds, sawWork, prLinks } = more;
report('ended again', { outcome, jobId, usedIds, sawWork, links: prLinks.length });
const last = await job.sendFollowUp('One more', { id: 'last' });
const most = await job.result();
report('ended once more', { state: last.state, outcome: most.outcome, usedIds: most.usedFollowUpIds });
report('repeated after all', { isNew: (await jobs.start(ticket)).isNew });

await canceled.cancel();
const end = await endOf(Promise.resolve(canceled));
const answer = await canceled.sendFollowUp('Go on', { id: 'on' });
report('follow-up after a cancel', {
  ended: end,
  state: answer.state,
  outcome: await endOf(Promise.resolve(canceled)),
});
await jobs.client.workflow
  .getHandle(jobs.handle({ projectId, key: 'Terminated' }).workflowId)
  .terminate('by the story');
const abandoned = jobs.handle({ projectId, key: 'abandoned' });
while ((await abandoned.state()).unknown === null) await pause(200);
await abandoned.resolve({ action: 'abandon' });
for (const other of others)
  report('each end', { expected: other.end, found: (await other.found) || (await endOf(other.started)) });
const another = { key: 'CreateRejected', projectId, prompt: 'Another prompt' };
const outcomes = await Promise.all(Array.from({ length: 5 }, () => endOf(jobs.start(another))));
report('rejected create starts again', { outcomes });
await jobs.close();
