/** `attention`: the jobs, workflows and webhooks that need a person, and how each can be mended. */
import type { Command } from 'commander';
import type { EarlyEnd } from '../client/agent-job/attention.js';
import type { AttentionItem, StuckJob } from '../starter.js';
import { unpauseText } from '../temporal/visibility.js';
import { type Item, printItems, type Session, withSession } from './session.js';
import { hint, resolveCommands, shellWord, show } from './show.js';

/** Adds `attention`. */
export function addAttention(program: Command): void {
  const what =
    'in-doubt writes, refused keys, pauses, failing code, versions without workers, early ends, webhooks given up';
  const command = program
    .command('attention')
    .description(`list what needs a person: ${what}`)
    .option('--json', 'print one line of JSON for each, to which "resolve --from" takes an action')
    .action(({ json: isJson }: { json?: boolean }) =>
      withSession(command, (session) =>
        printItems(itemsOf(session), { isJson, noun: 'job', none: 'nothing needs attention' }),
      ),
    );
}

async function* itemsOf(session: Session): AsyncGenerator<Item> {
  const { jobs, signal } = session;
  for await (const item of jobs.needsAttention({ signal })) yield inDoubtItem(session, item);
  for await (const job of jobs.stuck({ signal })) yield stuckItem(job);
  const lists = await import('../client/agent-job/attention.js');
  const { listEarlyEnds, listRefusedKeys, listUndelivered, listWaitingExports } = lists;
  for await (const refusedKey of listRefusedKeys(jobs.client, { signal }))
    yield { line: { refusedKey }, text: show({ ...refusedKey, toMendIt: TO_MEND_A_KEY }) };
  for await (const job of listEarlyEnds(jobs.client, { signal })) yield earlyEndItem(session, job);
  for await (const waitingExport of listWaitingExports(jobs.client, { signal }))
    yield { line: { waitingExport }, text: show({ ...waitingExport, forOverAnHour: 'why: its page in the web UI' }) };
  for await (const undelivered of listUndelivered(jobs.client, { signal })) {
    const { workflowId: webhook, type: event, of, to: notTakenBy, givenUpAt } = undelivered;
    const toSendItAgain = `${RESET} ${shellWord(webhook)}`;
    yield { line: { undelivered }, text: show({ webhook, event, of, notTakenBy, givenUpAt, toSendItAgain }) };
  }
}

const TO_MEND_A_KEY = 'its key is refused or missing: see docs/runbooks.md, "AgentJobsKeyRefused"';

/** A delivery is sent again by the Temporal CLI, with the same id and body. */
const RESET = `temporal workflow reset --type FirstWorkflowTask --reason 'send again' --workflow-id`;

function inDoubtItem({ jobs, globals }: Session, { problem, ...item }: AttentionItem): Item {
  const { workflowId, unknown } = item;
  if (problem !== undefined) return { problem: `${workflowId} could not be read: ${problem}` };
  // A title begins with the prompt.
  const line = jobs.hidePrompts ? { ...item, title: null } : item;
  const isCreate = unknown?.kind === 'create';
  const checkUpstream = isCreate ? 'is there a job with its prompt?' : 'does the job show this message?';
  return { line, text: show({ ...line, checkUpstream }, resolveCommands(workflowId, unknown, globals)) };
}

/** A run that ended too early: another run can watch the job to its end. */
function earlyEndItem({ globals }: Session, earlyEnd: EarlyEnd): Item {
  const { workflowId, projectId, jobId, outcome, endedAt } = earlyEnd;
  const ended = `${outcome} at ${endedAt}, while the upstream was still at work on the job`;
  const watch = ['start', '--project', projectId ?? 'PROJECT', '--job-id', jobId ?? 'ID'];
  return { line: { earlyEnd }, text: show({ workflowId, ended }, [['To watch it on', hint(globals, watch)]]) };
}

/** A workflow that makes no progress: why, and what mends it. Without a `kind`, `resolve` does not take the line. */
function stuckItem(job: StuckJob): Item {
  const { workflowId, projectId, ...stuck } = job;
  const { workflowType: type, problems, pinnedTo, paused } = stuck;
  let why = `its workflow task fails: ${problems.join(', ')}`;
  let toMendIt = 'see docs/runbooks.md, "AgentJobsWorkflowTasksFail": it goes on once a worker can run it';
  if (paused !== null) [why, toMendIt] = [`it is ${paused}`, unpauseText(workflowId)];
  else if (pinnedTo !== null) {
    why = `no worker of version ${pinnedTo} runs, to which it is pinned`;
    toMendIt = 'run workers of that version, or move it to the current one: docs/operations.md, "Pinned versions"';
  }
  return { line: { workflowId, projectId, stuck }, text: show({ workflowId, type, projectId, stuck: why, toMendIt }) };
}
