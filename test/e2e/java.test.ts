import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { needToolchain } from '../support/toolchains.js';
import { expectedSteps, expectedTraces, prepareStory, readSteps, readTraces, storyFailed } from './language-story.js';
import { usePrivateSystem } from './system.js';

const run = promisify(execFile);
const EXAMPLE = fileURLToPath(new URL('../../examples/java/', import.meta.url));
const STORY_LIMIT_MS = 300_000;
/** The first build fetches the libraries, which Maven keeps. */
const BUILD_LIMIT_MS = 480_000;

const system = usePrivateSystem({ script: { activeMs: 5_000 } });

/** Compiles the example into a folder, and returns its class path. */
async function build(folder: string): Promise<string> {
  const libraries = join(folder, 'classpath');
  const goals = ['compile', 'dependency:build-classpath', `-Dmdep.outputFile=${libraries}`];
  const args = ['--quiet', '--batch-mode', `-Dbuild.folder=${folder}`, ...goals];
  await run('mvn', args, { cwd: EXAMPLE, timeout: BUILD_LIMIT_MS }).catch((error: { stdout: string }) => {
    throw new Error(`mvn failed:\n${error.stdout}`);
  });
  return [join(folder, 'classes'), await readFile(libraries, 'utf8')].join(delimiter);
}

test(
  'a Java program tells the whole story of the contract',
  { timeout: STORY_LIMIT_MS + BUILD_LIMIT_MS },
  async (context) => {
    await needToolchain(context, 'java');
    const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-java-'));
    try {
      const classPath = await build(folder);
      system.startWorker();
      const projectId = 'story-java';
      await prepareStory(system, projectId);
      const options = { env: { ...process.env, ...system.clientEnv() }, timeout: STORY_LIMIT_MS };
      const { stdout } = await run('java', ['-cp', classPath, 'agentjobs.Story', projectId], options).catch(
        storyFailed,
      );
      expect(readSteps(stdout)).toEqual(await expectedSteps(system, projectId));
      expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);
