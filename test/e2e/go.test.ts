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
import { TRIALS } from './language-trials.js';
import { usePrivateSystem } from './system.js';

const run = promisify(execFile);
const EXAMPLE = fileURLToPath(new URL('../../examples/go/', import.meta.url));
const STORY_LIMIT_MS = 300_000;
/** The first build fetches the modules and compiles them; Go keeps both. */
const BUILD_LIMIT_MS = 480_000;

const system = usePrivateSystem({ script: { activeMs: 5_000 } });

test(
  'a Go program tells the whole story of the contract',
  { timeout: STORY_LIMIT_MS + BUILD_LIMIT_MS },
  async (context) => {
    await needToolchain(context, 'go');
    await run('go', ['vet', './...'], { cwd: EXAMPLE, timeout: BUILD_LIMIT_MS });
    expect((await run('gofmt', ['-l', '.'], { cwd: EXAMPLE })).stdout).toBe('');
    system.startWorker();
    const projectId = 'story-go';
    await prepareStory(system, projectId);
    const env = { ...process.env, ...system.clientEnv() };
    const options = { cwd: EXAMPLE, env, timeout: STORY_LIMIT_MS };
    const { stdout } = await run('go', ['run', './story', projectId], options).catch(storyFailed);
    expect(readSteps(stdout)).toEqual(await expectedSteps(system, projectId));
    expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
  },
);

test(
  "README's Go program runs as it is written, beside a copy of the example",
  { timeout: STORY_LIMIT_MS + BUILD_LIMIT_MS },
  async (context) => {
    await needToolchain(context, 'go');
    system.startWorker();
    const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-go-'));
    try {
      await cp(EXAMPLE, folder, { recursive: true });
      await mkdir(join(folder, 'readme'));
      await writeFile(join(folder, 'readme/main.go'), await readmeProgram(system, 'go', 'jobs.Start'));
      const options = { cwd: folder, timeout: BUILD_LIMIT_MS };
      expect((await run('gofmt', ['-l', 'readme'], options)).stdout).toBe('');
      const { stdout } = await run('go', ['run', './readme'], options).catch(storyFailed);
      expect(stdout).toBe('completed\n');
      expect(await readmeTraces(system)).toEqual(README_TRACES);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);

const callers = await mkdtemp(join(tmpdir(), 'agent-jobs-go-caller-'));
afterAll(() => rm(callers, { recursive: true, force: true }));
let built: Promise<string> | undefined;

/** The program that makes one call, built beside a copy of the example. */
async function buildCaller(): Promise<string> {
  await cp(EXAMPLE, callers, { recursive: true });
  await mkdir(join(callers, 'call'));
  await cp(fileURLToPath(new URL('callers/call.go', import.meta.url)), join(callers, 'call/main.go'));
  const options = { cwd: callers, timeout: BUILD_LIMIT_MS };
  expect((await run('gofmt', ['-l', 'call'], options)).stdout).toBe('');
  await run('go', ['build', '-o', 'caller', './call'], options);
  return join(callers, 'caller');
}

test.for(TRIALS)('from Go, %s', { timeout: STORY_LIMIT_MS + BUILD_LIMIT_MS }, async ([, trial], context) => {
  await needToolchain(context, 'go');
  const caller = { program: await (built ??= buildCaller()), args: [], env: process.env };
  await expect(trial(system, caller)).resolves.toBeUndefined();
});
