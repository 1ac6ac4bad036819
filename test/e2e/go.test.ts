import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { needToolchain } from '../support/toolchains.js';
import { expectedSteps, expectedTraces, prepareStory, readSteps, readTraces, storyFailed } from './language-story.js';
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
