import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { compile, compilerOf, pack, PROJECT_FOLDER, runProgram, unpackedConsumer } from '../package/consumer.js';
import { expectedSteps, expectedTraces, prepareStory, readSteps, readTraces } from './language-story.js';
import { usePrivateSystem } from './system.js';

const system = usePrivateSystem({ script: { activeMs: 5_000 } });
let consumer: string;

beforeAll(async () => {
  consumer = await unpackedConsumer({ 'agent-jobs-client': await pack('agent-jobs-client') });
  await writeFile(join(consumer, 'package.json'), '{"type": "module", "private": true}');
});
beforeEach(() => {
  system.startWorker();
});

test('a TypeScript program tells the whole story of the contract', { timeout: 240_000 }, async () => {
  const projectId = 'story-typescript';
  await prepareStory(system, projectId);
  await copyFile(join(PROJECT_FOLDER, 'examples/typescript/story.ts'), join(consumer, 'story.ts'));
  const options = { module: 'nodenext', target: 'es2023', types: ['node'], outDir: 'out' };
  expect(await compile(consumer, await compilerOf(null), options)).toEqual([]);
  const printed = await runProgram(consumer, 'out/story.js', system.clientEnv(), [projectId]);
  expect(readSteps(printed)).toEqual(await expectedSteps(system, projectId));
  expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
});
