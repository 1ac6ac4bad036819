/**
 * A step of GitHub Actions that starts an agent job, or joins the one of this commit. It reads the inputs of
 * `action.yml` and the variables of Actions, and needs nothing but `agent-jobs-client`, installed in the folder
 * AGENT_JOBS_CLIENT. Ends with 0 if the job ended well, or if its end is not awaited; else with 1.
 */
import { randomUUID } from 'node:crypto';
import { appendFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { env } = process;
const require = createRequire(join(env.AGENT_JOBS_CLIENT || process.cwd(), 'package.json'));
const { AgentJobs } = require('agent-jobs-client');

/** For the connection, and for the start: a runner has more patience with a busy Temporal than a service. */
const START_WITHIN_MS = 120_000;
const GOOD_OUTCOMES = ['completed', 'archived'];

/** A wrong input of the step. */
class InputError extends Error {}

function readInputs() {
  const { GITHUB_REPOSITORY: repository, GITHUB_SHA: sha, INPUT_PROMPT: prompt, INPUT_PROJECT: projectId } = env;
  const key = env.INPUT_KEY || (repository && sha ? `${repository}@${sha}` : '');
  if (!prompt || !projectId) throw new InputError('"prompt" and "project" must be given');
  if (!key) throw new InputError('"key" must be given where GITHUB_REPOSITORY and GITHUB_SHA are not set');
  const wait = (env.INPUT_WAIT || 'true').toLowerCase();
  if (wait !== 'true' && wait !== 'false') throw new InputError('"wait" must be true or false');
  const minutes = Number(env.INPUT_TIMEOUT_MINUTES || '60');
  const isMinutes = minutes > 0 && minutes <= 10_000;
  if (!isMinutes) throw new InputError('"timeout-minutes" must be a number above 0 and at most 10000');
  return { key, projectId, prompt, waits: wait === 'true', timeoutMs: Math.ceil(minutes * 60_000) };
}

/** Whichever comes first: the end, a question to a person, or the time limit. */
async function waitForEnd(job, timeoutMs) {
  const ended = new AbortController();
  const signal = AbortSignal.any([ended.signal, AbortSignal.timeout(timeoutMs)]);
  try {
    return await Promise.race([readEnd(job, signal), untilAttention(job, signal)]);
  } finally {
    ended.abort();
  }
}

async function readEnd(job, signal) {
  try {
    const { outcome, prLink } = await job.result({ signal });
    return { outcome, prLink: prLink ?? '', why: '' };
  } catch (error) {
    if (signal.aborted) return { outcome: 'running', prLink: '', why: 'it runs on; run this step again to wait on' };
    if (error.workflowId === undefined && error.name !== 'InvalidInputError') throw error;
    return { outcome: error.name.replace(/Error$/, ''), prLink: '', why: error.message };
  }
}

/** Answers only if the job needs a person; readEnd reports every other end. */
async function untilAttention(job, signal) {
  try {
    for await (const state of job.watch({ signal })) {
      if (state.phase !== 'needsAttention') continue;
      const why = `a person must say whether a write arrived: agent-jobs resolve '${job.workflowId}' --help`;
      return { outcome: 'needsAttention', prLink: state.prLink ?? '', why };
    }
  } catch (error) {
    if (!signal.aborted) log('The state is not known', error.message);
  }
  return new Promise(() => {});
}

/** A value may hold line breaks, or what looks like the delimiter of another one. */
async function writeOutputs(outputs) {
  if (!env.GITHUB_OUTPUT) return;
  const entries = Object.entries(outputs).map(([name, value]) => {
    const delimiter = `end_${randomUUID()}`;
    return `${name}<<${delimiter}\n${value}\n${delimiter}\n`;
  });
  await appendFile(env.GITHUB_OUTPUT, entries.join(''));
}

async function writeSummary({ workflowId, outcome, prLink, why, prompt, url }) {
  if (!env.GITHUB_STEP_SUMMARY) return;
  const title = prompt
    .trim()
    .split(/[\r\n]/, 1)[0]
    .slice(0, 200);
  const lines = [
    `### Agent job: ${plain(outcome)}`,
    '',
    plain(title),
    '',
    `- Pull request: ${prLink ? link(prLink) : 'none'}`,
    `- Workflow: ${plain(workflowId)}${url ? ` (${link(url)})` : ''}`,
    ...(why ? [`- ${plain(why)}`] : []),
  ];
  await appendFile(env.GITHUB_STEP_SUMMARY, `${lines.join('\n')}\n\n`);
}

/** One line of Markdown that reads as the text and acts as nothing. */
function plain(text) {
  return oneLine(text).replace(/[!-/:-@[-`{-~]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** A link if the address is a simple one of the web, otherwise text. */
function link(address) {
  return /^https?:\/\/[\w.-]+(:\d+)?(\/[\w./%~@+-]*)?$/.test(address) ? `<${address}>` : plain(address);
}

/** Actions reads a command after two number signs and a bracket anywhere in a line. */
function oneLine(text) {
  return String(text)
    .replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu, ' ')
    .replaceAll('##[', '## [')
    .trim();
}

/** A line of the log; text from outside never begins one, where Actions reads its other commands. */
function log(label, text) {
  process.stdout.write(`${label}: ${oneLine(text)}\n`);
}

function logError(text) {
  process.stdout.write(`::error title=Agent job::${oneLine(text).replaceAll('%', '%25')}\n`);
}

async function main() {
  const { waits, timeoutMs, ...request } = readInputs();
  const jobs = await AgentJobs.connect({ timeoutMs: START_WITHIN_MS });
  try {
    const job = await jobs.start(request);
    const { workflowId } = job;
    log(job.isNew ? 'Started' : 'Joined', workflowId);
    // Before the wait: a step that is cancelled has said which job it was.
    await writeOutputs({ 'workflow-id': workflowId });
    const end = waits ? await waitForEnd(job, timeoutMs) : { outcome: 'running', prLink: '', why: '' };
    const { outcome, prLink, why } = end;
    await writeOutputs({ outcome, 'pr-link': prLink });
    await writeSummary({ workflowId, outcome, prLink, why, prompt: request.prompt, url: job.url ?? '' });
    log('Outcome', outcome);
    if (prLink) log('Pull request', prLink);
    if (!waits || GOOD_OUTCOMES.includes(outcome)) return;
    logError(`${outcome}${why ? `: ${why}` : ''} [${workflowId}]`);
    process.exitCode = 1;
  } finally {
    await jobs.close();
  }
}

await main().catch((error) => {
  logError(error.message);
  process.exitCode = 1;
});
