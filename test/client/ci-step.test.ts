import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { startJobServer } from './job-server.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CI = join(ROOT, 'examples/ci');

const server = useForFile(startJobServer);

interface Step {
  code: number;
  stdout: string;
  outputs: Record<string, string>;
  summary: string;
}

const commit = () => randomUUID().replaceAll('-', '').padEnd(40, '0');

/** The environment that Actions gives to a step, and its files. */
async function step(inputs: Record<string, string>, GITHUB_SHA = commit()): Promise<Step> {
  const folder = newFolder();
  const GITHUB_OUTPUT = join(folder, 'output');
  const GITHUB_STEP_SUMMARY = join(folder, 'summary.md');
  await writeFile(GITHUB_OUTPUT, '');
  await writeFile(GITHUB_STEP_SUMMARY, '');
  const env = {
    PATH: process.env['PATH'],
    GITHUB_ACTIONS: 'true',
    GITHUB_REPOSITORY: 'acme/site',
    GITHUB_SHA,
    GITHUB_OUTPUT,
    GITHUB_STEP_SUMMARY,
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: server.namespace,
    AGENT_JOBS_TASK_QUEUE: server.taskQueue,
    AGENT_JOBS_CLIENT: ROOT,
    INPUT_PROJECT: server.projectId,
    INPUT_KEY: '',
    INPUT_WAIT: '',
    INPUT_TIMEOUT_MINUTES: '',
    ...inputs,
  };
  const { code, stdout } = await run(process.execPath, [join(CI, 'start-job.mjs')], env);
  const outputs = parseOutputs(await readFile(GITHUB_OUTPUT, 'utf8'));
  return { code, stdout, outputs, summary: await readFile(GITHUB_STEP_SUMMARY, 'utf8') };
}

function run(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<{ code: number; stdout: string }> {
  return new Promise((resolve) => {
    execFile(program, args, { env, timeout: 150_000 }, (error, stdout) => {
      resolve({ code: error ? Number(error.code ?? -1) : 0, stdout });
    });
  });
}

/** As the runner reads it: `name<<delimiter`, lines, delimiter; anything else is an error there. */
function parseOutputs(text: string): Record<string, string> {
  const outputs: Record<string, string> = {};
  const lines = text.split('\n').slice(0, -1);
  while (lines.length > 0) {
    const [, name = '', delimiter = ''] = /^([\w-]+)<<(\S+)$/.exec(lines.shift()!) ?? [];
    const end = lines.indexOf(delimiter);
    expect(name !== '' && end >= 0, text).toBe(true);
    outputs[name] = lines
      .splice(0, end + 1)
      .slice(0, -1)
      .join('\n');
  }
  return outputs;
}

const creates = (promptIncludes: string) => server.sandbox.creates({ projectId: server.projectId, promptIncludes });
/** Lines that the runner would obey. */
const commands = (stdout: string) => stdout.split('\n').filter((line) => /^\s*(::|##\[)/.test(line));

test('a step starts the job of its commit and names the pull request; run again, it makes no second job', async () => {
  const sha = commit();
  const prompt = `Write release notes ${sha}`;
  const first = await step({ INPUT_PROMPT: prompt }, sha);
  expect(first).toMatchObject({ code: 0, outputs: { outcome: 'completed' } });
  const { workflowId } = server.jobs.handle({ projectId: server.projectId, key: `acme/site@${sha}` });
  expect(first.outputs['workflow-id']).toBe(workflowId);
  expect(first.outputs['pr-link']).toMatch(/^https:\/\//);
  expect(first.summary).toContain(`- Pull request: <${first.outputs['pr-link']}>`);
  expect(first.stdout).toContain('Started:');
  const again = await step({ INPUT_PROMPT: prompt }, sha);
  expect(again).toMatchObject({ code: 0, outputs: first.outputs });
  expect(again.stdout).toContain('Joined:');
  expect(await creates(prompt)).toHaveLength(1);
});

test('a step whose time is over fails, and the run repeated waits for the same job', async () => {
  const sha = commit();
  const prompt = `Slow ${sha}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 5_000 } });
  const impatient = await step({ INPUT_PROMPT: prompt, INPUT_TIMEOUT_MINUTES: '0.02' }, sha);
  expect(impatient).toMatchObject({ code: 1, outputs: { outcome: 'running' } });
  expect(impatient.stdout).toContain('run this step again');
  expect(await step({ INPUT_PROMPT: prompt }, sha)).toMatchObject({ code: 0, outputs: { outcome: 'completed' } });
  expect(await creates(prompt)).toHaveLength(1);
});

test('a job that failed upstream, or needs a person, fails the step at once and says what to do', async () => {
  const failing = `Fail ${randomUUID()}`;
  // The last record no longer has the link.
  const link = 'https://github.example/a/b/pull/1';
  const steps = [
    { status: 'active', prLink: link },
    { status: 'failed', afterMs: 5_000 },
  ];
  await server.sandbox.addScript({ promptIncludes: failing, script: { steps } });
  const outputs = { outcome: 'failed', 'pr-link': link };
  expect(await step({ INPUT_PROMPT: failing })).toMatchObject({ code: 1, outputs });
  const prompt = `Doubt ${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const asked = await step({ INPUT_PROMPT: prompt });
  expect(asked).toMatchObject({ code: 1, outputs: { outcome: 'needsAttention' } });
  // The runner decodes what a command of its own escapes.
  expect(asked.stdout.replaceAll('%25', '%')).toContain(`agent-jobs resolve '${asked.outputs['workflow-id']}'`);
});

const HOSTILE = [
  '$(touch /tmp/pwned) `id` "; exit 0; #',
  '::set-output name=outcome::completed',
  '::stop-commands::x',
  '##[error]x',
  'outcome<<end',
  'completed',
  'end',
  '<img src=x onerror=alert(1)> [pay](javascript:alert(1)) @everyone',
].join('\n');

test('a hostile prompt reaches the upstream as it is, and acts nowhere on its way', async () => {
  const prompt = `${randomUUID()} ${HOSTILE.split('\n').at(-1)} ${HOSTILE}`;
  const done = await step({ INPUT_PROMPT: prompt });
  expect(done).toMatchObject({ code: 0, outputs: { outcome: 'completed' } });
  expect(Object.keys(done.outputs).toSorted()).toEqual(['outcome', 'pr-link', 'workflow-id']);
  expect(commands(done.stdout)).toEqual([]);
  expect(done.summary).not.toMatch(/<img|\]\(|@everyone/);
  expect((await creates(prompt.slice(0, 36)))[0]?.prompt).toBe(prompt);
});

test('a hostile answer of the upstream becomes no command, no output and no element', async () => {
  const prompt = `Reject badly ${randomUUID()}`;
  const error = `no\n::set-output name=outcome::completed\n<img src=x>\n::error::x%0A::warning::y`;
  await server.sandbox.addFault({ kind: 'status', status: 422, body: { error }, promptIncludes: prompt });
  const rejected = await step({ INPUT_PROMPT: prompt });
  expect(rejected).toMatchObject({ code: 1, outputs: { outcome: 'CreateRejected', 'pr-link': '' } });
  expect(commands(rejected.stdout)).toHaveLength(1);
  expect(commands(rejected.stdout)[0]).not.toMatch(/%0A/i);
  expect(rejected.summary).not.toContain('<img');
});

test('no input of the action becomes part of a command, and each one reaches the script', async () => {
  const action = await readFile(join(CI, 'action.yml'), 'utf8');
  const script = await readFile(join(CI, 'start-job.mjs'), 'utf8');
  const uses = action.split('\n').filter((line) => line.includes('${{ inputs.'));
  expect(uses.length).toBeGreaterThan(8);
  const readers: string[] = [];
  for (const line of uses) {
    const [, name = ''] = /^ {8}([A-Z_]+): \$\{\{ inputs\.[a-z-]+( \|\| env\.\1)? \}\}$/.exec(line) ?? [];
    expect(name, line).not.toBe('');
    readers.push(name);
  }
  for (const name of readers.filter((reader) => reader.startsWith('INPUT_'))) expect(script).toContain(name);
  const [inputs = '', outputs = ''] = action.split(/^(?:outputs|runs):$/m);
  const namesIn = (part: string) => [...part.matchAll(/^ {2}([a-z-]+):$/gm)].map(([, name]) => name!);
  for (const name of namesIn(inputs)) expect(action).toContain(`{{ inputs.${name} `);
  expect(namesIn(outputs)).toEqual(['workflow-id', 'outcome', 'pr-link']);
  for (const name of namesIn(outputs)) expect(action).toContain(`{{ steps.start.outputs.${name} }}`);
});

/** The recipe as the page shows it, with the command line of this build on the path. */
test('the plain shell recipe of the page starts one job, however often it runs, and shows its outcome', async () => {
  const page = await readFile(join(ROOT, 'docs/recipes.md'), 'utf8');
  const recipe = /```sh\n([^`]*agent-jobs start[^`]*)```/.exec(page)?.[1] ?? '';
  const folder = newFolder();
  const bin = join(folder, 'agent-jobs');
  await writeFile(bin, `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, 'dist/cli/main.js')}' "$@"\n`);
  await chmod(bin, 0o755);
  const sha = commit();
  const prompt = `--help ${sha} ${HOSTILE}`;
  const env = {
    PATH: `${folder}:${process.env['PATH']}`,
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: server.namespace,
    AGENT_JOBS_TASK_QUEUE: server.taskQueue,
    PROJECT: server.projectId,
    REPOSITORY: 'acme/site',
    COMMIT: sha,
    PROMPT: prompt,
  };
  for (let i = 0; i < 2; i++) {
    const { code, stdout } = await run('/bin/sh', ['-c', recipe], env);
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(/Outcome +completed/);
  }
  expect((await creates(sha)).map(({ prompt: sent }) => sent)).toEqual([prompt]);
  for (const empty of [{ REPOSITORY: '' }, { COMMIT: '' }]) {
    expect((await run('/bin/sh', ['-c', recipe], { ...env, ...empty, PROMPT: `empty ${sha}` })).code).not.toBe(0);
  }
  expect(await creates(`empty ${sha}`)).toEqual([]);
});
