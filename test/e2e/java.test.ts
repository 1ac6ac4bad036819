import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
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
const EXAMPLE = fileURLToPath(new URL('../../examples/java/', import.meta.url));
const STORY_LIMIT_MS = 300_000;
/** The first build fetches the libraries, which Maven keeps. */
const BUILD_LIMIT_MS = 480_000;
/** For programs of seconds, the best compiler and collector cost more than they save. */
const SHORT_LIVED = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xshare:auto'];

const system = usePrivateSystem({ script: { activeMs: 5_000 } });

const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-java-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Compiles the example, README's program and the one that makes the trials' calls; returns their class path. */
async function build(): Promise<string> {
  const libraries = join(folder, 'classpath');
  const goals = ['compile', 'dependency:build-classpath', `-Dmdep.outputFile=${libraries}`];
  const args = ['--quiet', '--batch-mode', `-Dbuild.folder=${folder}`, ...goals];
  const env = { ...process.env, MAVEN_OPTS: SHORT_LIVED.join(' ') };
  await run('mvn', args, { cwd: EXAMPLE, env, timeout: BUILD_LIMIT_MS }).catch((error: { stdout: string }) => {
    throw new Error(`mvn failed:\n${error.stdout}`);
  });
  const classes = join(folder, 'classes');
  const path = [classes, await readFile(libraries, 'utf8')].join(delimiter);
  const readme = join(folder, 'StartJob.java');
  await writeFile(readme, await readmeProgram(system, 'java', 'jobs.start'));
  const programs = [readme, fileURLToPath(new URL('callers/Call.java', import.meta.url))];
  await run('javac', ['-J-XX:TieredStopAtLevel=1', '-d', classes, '-cp', path, ...programs]);
  return path;
}

let classPath: Promise<string> | undefined;

async function argsFor(...args: string[]): Promise<string[]> {
  return [...SHORT_LIVED, '-cp', await (classPath ??= build()), ...args];
}

/** Runs a program beside the compiled example; returns what it printed. */
async function java(...args: string[]): Promise<string> {
  await system.haveWorker();
  const options = { env: { ...process.env, ...system.clientEnv() }, timeout: STORY_LIMIT_MS };
  return (await run('java', await argsFor(...args), options).catch(storyFailed)).stdout;
}

const LIMIT_MS = STORY_LIMIT_MS + BUILD_LIMIT_MS;

test('a Java program tells the whole story of the contract', { timeout: LIMIT_MS }, async (context) => {
  await needToolchain(context, 'java');
  const projectId = 'story-java';
  await prepareStory(system, projectId);
  expect(readSteps(await java('agentjobs.Story', projectId))).toEqual(await expectedSteps(system, projectId));
  expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
});

test(
  "README's Java program runs as it is written, beside the compiled example",
  { timeout: LIMIT_MS },
  async (context) => {
    await needToolchain(context, 'java');
    expect(await java('StartJob')).toBe('completed\n');
    expect(await readmeTraces(system)).toEqual(README_TRACES);
  },
);

let caller: Caller | undefined;

testTrials('Java', system, LIMIT_MS, async (context) => {
  await needToolchain(context, 'java');
  return (caller ??= new Caller(system, 'java', await argsFor('Call'), process.env));
});
