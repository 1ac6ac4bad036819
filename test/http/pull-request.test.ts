/** The step of Actions that tells a job what became of its pull request, against a real server. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { QUICK } from '../client/job-server.js';
import { until } from '../support/worker-process.js';
import { startHttpJobServer } from './http-server.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const SCRIPT = fileURLToPath(new URL('../../examples/ci/pull-request.mjs', import.meta.url));

const server = useForFile(startHttpJobServer);
let link: string;
let workflowId: string;
beforeAll(async () => {
  const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'p', ...QUICK });
  workflowId = job.workflowId;
  link = (await job.result()).prLink!;
  const isListed = async () => {
    for await (const found of server.jobs.list({ prLink: link })) return found.workflowId;
    return null;
  };
  await until(async () => (await isListed()) === workflowId, 'the job to be listed by its link');
});

/** Runs the step with an event; returns its exit code and its output. */
async function step(event: object, more: Record<string, string> = {}): Promise<[number, string]> {
  const file = join(newFolder(), 'event.json');
  await writeFile(file, JSON.stringify(event));
  const [, site, repository] = /^(https?:\/\/[^/]+)\/(.+)\/pull\/\d+$/.exec(link)!;
  const env = {
    GITHUB_EVENT_PATH: file,
    GITHUB_SERVER_URL: site,
    GITHUB_REPOSITORY: repository,
    AGENT_JOBS_URL: server.bench.http.url,
    AGENT_JOBS_PROJECT: server.projectId,
    AGENT_JOBS_KEY: server.bench.own,
    ...more,
  };
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT], { env, timeout: 120_000 }, (error, stdout) =>
      resolve([error ? Number(error.code ?? -1) : 0, stdout]),
    );
  });
}

const number = () => Number(/\d+$/.exec(link)![0]);
const failed = (sha: string, conclusion = 'failure') => ({
  workflow_run: { conclusion, head_sha: sha, pull_requests: [{ number: number() }] },
});
const review = (id: number, more: object = {}) => ({
  pull_request: { number: number() },
  review: {
    id,
    state: 'changes_requested',
    author_association: 'MEMBER',
    html_url: `${link}#r${id}`,
    body: 'Rename it',
    ...more,
  },
});
const used = async () => (await server.jobs.handle(workflowId).state()).usedFollowUpIds;

test('failed checks and a member’s review are told once each, five in all, and nothing else is', async () => {
  const id = (what: string) => `pull-${number()}-${what}`;
  expect(await step(failed('aaa'))).toEqual([0, `agent job: ${workflowId} goes on\n`]);
  expect((await step(failed('aaa')))[1]).toContain('has got this before');
  const body = '$(touch /tmp/x)\n::set-output name=a::b\n##[error]x';
  expect((await step(review(7, { body })))[1]).toContain('goes on');
  const told = [id('checks-aaa'), id('review-7')];
  expect(await used()).toEqual(told);
  const messages = async () => (await server.sandbox.messages()).map(({ prompt }) => prompt).join();
  await expect.poll(messages).toContain(body);
  for (const quiet of [
    failed('bbb', 'success'),
    review(8, { author_association: 'NONE' }),
    review(9, { state: 'approved' }),
    { workflow_run: { ...failed('ccc').workflow_run, pull_requests: [] } },
  ])
    expect(await step(quiet)).toEqual([0, 'agent job: nothing that the job must know\n']);
  for (const sha of ['ddd', 'eee', 'fff']) expect((await step(failed(sha)))[0]).toBe(0);
  expect(await step(failed('ggg'))).toEqual([0, expect.stringContaining('has got 5 follow-ups')]);
  expect(await used()).toHaveLength(5);
});

test('no secret, no job, and a server that refuses the key', async () => {
  expect(await step(failed('a'), { AGENT_JOBS_KEY: '' })).toEqual([0, expect.stringContaining('nothing is sent')]);
  const other = { GITHUB_REPOSITORY: 'acme/other' };
  expect(await step(failed('a'), other)).toEqual([0, expect.stringContaining('no job has opened')]);
  expect(await step(failed('a'), { AGENT_JOBS_KEY: 'wrong' })).toEqual([1, expect.stringContaining('401')]);
});

test('a link that no index holds is invalid', async () => {
  const path = `/v1/projects/${server.projectId}/jobs?prLink=${'x'.repeat(256)}`;
  const { status, body } = await server.bench.send(path);
  expect([status, body.detail]).toEqual([422, expect.stringContaining('at most 255 characters')]);
});
