/**
 * A step of GitHub Actions that tells an agent job what became of its pull request: its checks failed, or a member asks
 * for changes. It finds the job by the pull request's link and sends a follow-up, once for each commit or review, and
 * at most five for a pull request. Texts of the event go into JSON alone. It needs Node and the HTTP server of
 * agent-jobs: AGENT_JOBS_URL, AGENT_JOBS_PROJECT, and AGENT_JOBS_KEY, which a fork does not get. Ends with 1 if a call
 * fails.
 */
import { readFile } from 'node:fs/promises';

const { env } = process;
const MAX_FOLLOW_UPS = 5;
const MEMBERS = ['OWNER', 'MEMBER', 'COLLABORATOR'];
const BAD_ENDS = ['failure', 'timed_out'];

/** What a pull request is to be told: an id that stays the same for the same commit or review. Null if nothing. */
function newsOf({ review, pull_request: pull, workflow_run: run }) {
  if (review) {
    const isAsked = review.state.toLowerCase() === 'changes_requested' && MEMBERS.includes(review.author_association);
    if (!isAsked) return null;
    const prompt = `A review of the pull request asks for changes (${review.html_url}):\n\n${review.body ?? ''}`;
    return { number: pull.number, id: `review-${review.id}`, prompt };
  }
  const number = run?.pull_requests?.[0]?.number;
  if (number === undefined || !BAD_ENDS.includes(run.conclusion)) return null;
  const prompt = `Checks of commit ${run.head_sha} have failed. Find out which and why, and mend it.`;
  return { number, id: `checks-${run.head_sha}`, prompt };
}

async function call(path, body) {
  const response = await fetch(`${env.AGENT_JOBS_URL}/v1${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${env.AGENT_JOBS_KEY}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(90_000),
  });
  const answer = await response.json();
  if (response.ok) return answer;
  throw Object.assign(new Error(`${response.status} ${answer.code}: ${answer.detail}`), { code: answer.code });
}

async function sendFollowUp({ number, id: what, prompt }) {
  const link = `${env.GITHUB_SERVER_URL}/${env.GITHUB_REPOSITORY}/pull/${number}`;
  const project = encodeURIComponent(env.AGENT_JOBS_PROJECT);
  const { jobs } = await call(`/projects/${project}/jobs?limit=1&prLink=${encodeURIComponent(link)}`);
  if (jobs.length === 0) return `no job has opened ${link}`;
  const [{ workflowId }] = jobs;
  const job = `/jobs/${Buffer.from(workflowId).toString('base64url')}`;
  const { state, result } = await call(job);
  // A run that goes on with an ended one knows the ids of all runs before.
  const sent = ((state ?? result)?.usedFollowUpIds ?? []).filter((id) => id.startsWith(`pull-${number}-`));
  const id = `pull-${number}-${what}`;
  if (sent.includes(id)) return `${workflowId} has got this before`;
  if (sent.length >= MAX_FOLLOW_UPS) return `${workflowId} has got ${sent.length} follow-ups for ${link}: ask a person`;
  await call(`${job}/follow-ups`, { id, prompt });
  return `${workflowId} goes on`;
}

/** A line of the log in which Actions reads no command. */
function log(text) {
  process.stdout.write(`agent job: ${text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').replaceAll('##[', '## [')}\n`);
}

async function main() {
  if (!env.AGENT_JOBS_KEY) return log('AGENT_JOBS_KEY is not set, as in a fork: nothing is sent');
  const news = newsOf(JSON.parse(await readFile(env.GITHUB_EVENT_PATH, 'utf8')));
  log(news ? await sendFollowUp(news) : 'nothing that the job must know');
}

await main().catch((error) => {
  // Another event of the same commit was faster.
  if (error.code === 'FOLLOW_UP_CONFLICT') return log('the job has got this before');
  log(error.message);
  process.exitCode = 1;
});
