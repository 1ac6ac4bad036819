import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { needToolchain } from '../support/toolchains.js';
import {
  expectedSteps,
  expectedTraces,
  prepareStory,
  README_TRACES,
  readmeProgram,
  readmeTraces,
  readSteps,
  readTraces,
  storyFailed,
} from './language-story.js';
import { Caller, testTrials } from './language-trials.js';
import { usePrivateSystem } from './system.js';

const run = promisify(execFile);
const EXAMPLE = fileURLToPath(new URL('../../examples/go/', import.meta.url));
const STORY_LIMIT_MS = 300_000;
/** The first build fetches the modules and compiles them; Go keeps both. */
const BUILD_LIMIT_MS = 480_000;

const system = usePrivateSystem({ script: { activeMs: 5_000 } });

const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-go-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Builds the story, README's program and the one that makes the trials' calls, in a copy of the example. */
async function build(): Promise<void> {
  await cp(EXAMPLE, folder, { recursive: true });
  for (const name of ['readme', 'call']) await mkdir(join(folder, name));
  await writeFile(join(folder, 'readme/main.go'), await readmeProgram(system, 'go', 'jobs.Start'));
  await cp(fileURLToPath(new URL('callers/call.go', import.meta.url)), join(folder, 'call/main.go'));
  const options = { cwd: folder, timeout: BUILD_LIMIT_MS };
  expect((await run('gofmt', ['-l', '.'], options)).stdout).toBe('');
  await run('go', ['vet', './...'], options);
  // Without symbols a program is linked at half of the cost.
  await run('go', ['build', '-ldflags=-s -w', '-o', 'programs/', './story', './readme', './call'], options);
}

let built: Promise<void> | undefined;

async function programOf(name: string): Promise<string> {
  await (built ??= build());
  return join(folder, 'programs', name);
}

/** Runs a program; returns what it printed. */
async function runGo(name: string, ...args: string[]): Promise<string> {
  await system.haveWorker();
  const options = { env: { ...process.env, ...system.clientEnv() }, timeout: STORY_LIMIT_MS };
  return (await run(await programOf(name), args, options).catch(storyFailed)).stdout;
}

const LIMIT_MS = STORY_LIMIT_MS + BUILD_LIMIT_MS;

test('a Go program tells the whole story of the contract', { timeout: LIMIT_MS }, async (context) => {
  await needToolchain(context, 'go');
  const projectId = 'story-go';
  await prepareStory(system, projectId);
  expect(readSteps(await runGo('story', projectId))).toEqual(await expectedSteps(system, projectId));
  expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
});

test(
  "README's Go program runs as it is written, beside a copy of the example",
  { timeout: LIMIT_MS },
  async (context) => {
    await needToolchain(context, 'go');
    expect(await runGo('readme')).toBe('completed\n');
    expect(await readmeTraces(system)).toEqual(README_TRACES);
  },
);

let caller: Caller | undefined;

testTrials('Go', system, LIMIT_MS, async (context) => {
  await needToolchain(context, 'go');
  return (caller ??= new Caller(system, await programOf('call'), [], process.env));
});
