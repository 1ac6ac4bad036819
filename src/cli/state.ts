import { spawn } from 'node:child_process';
import { type Command, Option } from 'commander';
import { jobUrl, listUrl, type WebUi, webUiViews } from '../client/web-ui.js';
import type { JobMetadata, JobState } from '../contract.js';
import { UsageError } from './exit.js';
import { formatWaiting, remedyFor } from './follow.js';
import { addJobNameOptions, findJob, type JobName, type JobNameFlags, readJobName } from './targets.js';
import { lastDecisionField, resolveCommands } from './in-doubt.js';
import { type GlobalOptions, printAnswer, type Session, withSession } from './session.js';
import { fields, readableTime } from './table.js';

interface StateFlags extends JobNameFlags {
  json?: boolean;
}

/** Adds `state`. */
export function addState(program: Command): void {
  const state = program
    .command('state')
    .description('show what a job is doing, or did')
    .argument('[job]', 'its workflow id, or its key where one job has it')
    .option('--json', 'print JSON')
    .action((given: string | undefined, { json, ...flags }: StateFlags) => {
      const name = readJobName({ given, ...flags });
      return withSession(state, async (session) => {
        const { globals, signal } = session;
        const job = await findJob(session, name);
        const jobState = await job.state({ signal });
        printAnswer(json, { workflowId: job.workflowId, ...jobState }, () =>
          formatState(job.workflowId, jobState, globals),
        );
      });
    });
  addJobNameOptions(state);
}

function formatState(workflowId: string, state: JobState, globals: GlobalOptions): string {
  const { job, unknown } = state;
  return fields([
    ['Workflow', workflowId],
    ['Phase', state.phase],
    ['Outcome', state.outcome],
    ['Waits for', formatWaiting(state.waiting)],
    // For a write in doubt the commands stand below.
    ['What to do', unknown ? undefined : remedyFor(state)],
    ['Project', state.projectId],
    ['Job', state.jobId],
    ['Upstream says', job?.status],
    ['Pull request', job?.prLink],
    ['Started', readableTime(state.startedAt)],
    ['Last change', readableTime(state.lastChangeAt)],
    ['Reads', String(state.polls)],
    ['Tags', state.tags?.join(', ')],
    ['Metadata', formatMetadata(state.metadata)],
    ['Follow-ups', state.followUps.map(({ id, state: fate }) => `${id}: ${fate}`).join(', ')],
    [
      'In doubt',
      unknown &&
        `${[unknown.kind, unknown.followUpId].filter(Boolean).join(' ')} since ${unknown.since}: ${unknown.reason}`,
    ],
    ['Look after', unknown?.lookAfter],
    lastDecisionField(state.decisions),
    ...resolveCommands(workflowId, unknown, globals),
  ]);
}

function formatMetadata(metadata: JobMetadata): string {
  return Object.entries(metadata)
    .map(([name, text]) => `${name}=${text}`)
    .join(', ');
}

interface OpenFlags extends JobNameFlags {
  view?: string;
  print?: boolean;
  json?: boolean;
}

/** Names of `webUiViews`, which is loaded only when the command runs. */
const VIEWS = ['attention', 'waiting', 'ended-badly', 'exports'];

/** What opens an address, without a shell: each word is an argument, whatever it holds. */
const OPENERS: Partial<Record<NodeJS.Platform, [program: string, ...args: string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Adds `open`, which shows a job, or the list of jobs, in Temporal's web UI. */
export function addOpen(program: Command): void {
  const command = program
    .command('open')
    .description('show a job, or a list of jobs, in Temporal’s web UI')
    .argument('[job]', 'its workflow id, or its key where one job has it')
    .addOption(new Option('--view <name>', 'a list of the dashboard').choices(VIEWS))
    .option('--print', 'print the address alone, and open nothing')
    .option('--json', 'print JSON');
  addJobNameOptions(command).action((given: string | undefined, flags: OpenFlags) => {
    const { project, key, jobId, view, print: isPrintOnly = false, json: isJson = false } = flags;
    const isNamed = (given ?? key ?? jobId) !== undefined;
    if (isNamed && view !== undefined) throw new UsageError('give a job or --view, not both');
    if (!isNamed && project !== undefined) throw new UsageError('--project goes with a key or --job-id');
    return withSession(command, async (session) => {
      const { url, page } = isNamed
        ? await linksOfJob(session, { given, project, key, jobId })
        : await linkOfList(session, view);
      printAnswer(isJson, { url }, () => url);
      if (!isPrintOnly) openInBrowser(page);
    });
  });
}

/** An address, and the page that is opened at once. */
interface Links {
  url: string;
  page: string;
}

/** What is printed is kept, and leads to the newest run whenever it is opened; a page is that of the present run. */
async function linksOfJob(session: Session, name: JobName): Promise<Links> {
  const ui = webUiOf(session);
  const { workflowId } = await findJob(session, name);
  const { lookAtJob } = await import('../client/agent-job/list.js');
  const { runId } = await lookAtJob(session.jobs.client, workflowId, { signal: session.signal });
  return { url: jobUrl(ui, { workflowId }), page: jobUrl(ui, { workflowId, runId }) };
}

async function linkOfList(session: Session, view: string | undefined): Promise<Links> {
  const ui = webUiOf(session);
  const url = webUiViews(ui).find(({ name }) => name === view)?.url ?? listUrl(ui);
  return { url, page: url };
}

function webUiOf({ jobs: { webUi } }: Session): WebUi {
  if (webUi === null) throw new Error('nobody knows where the web UI is: set AGENT_JOBS_WEB_UI_URL to its address');
  return webUi;
}

/** Where there is no browser, the address that was printed will do. */
function openInBrowser(url: string): void {
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}
