/**
 * Records what workers show with a fault injected, in real time, and writes it as tests of promtool. All run at once,
 * which takes as long as the longest: an hour. `npm run record:alerts [-- NAME…]` records some of them.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Scenario } from './scenario.js';
import { scenarios } from './scenarios.js';
import { startServer } from './world.js';
import { writeTestFile } from './test-file.js';
import type { Recording } from './recorder.js';

/** Where all that was scraped stays, so that the tests can be written anew: RAW_RECORDINGS, or a temporary folder. */
const rawFolder = process.env['RAW_RECORDINGS'] ?? join(tmpdir(), 'agent-jobs-recordings');
const START_EVERY_MS = 10_000;

const [first, ...rest] = process.argv.slice(2);
const isRewrite = first === '--rewrite';
const names = isRewrite ? rest : process.argv.slice(2);
const chosen = scenarios.filter(({ name }) => names.length === 0 || names.includes(name));
const rawFile = ({ name }: Scenario) => join(rawFolder, `${name}.json`);

if (isRewrite) {
  for (const scenario of chosen) {
    await writeTestFile(scenario, JSON.parse(await readFile(rawFile(scenario), 'utf8')) as Recording);
  }
} else await recordAll();

async function recordAll(): Promise<void> {
  await mkdir(rawFolder, { recursive: true });
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-record-'));
  const server = await startServer(folder);
  const record = async (scenario: Scenario) => {
    const recording = await scenario.record(server, folder);
    await writeFile(rawFile(scenario), JSON.stringify(recording));
    await writeTestFile(scenario, recording);
  };
  await Promise.all(
    chosen.map(async (scenario, index) => {
      await delay(index * START_EVERY_MS);
      await record(scenario).then(
        () => console.log(`${scenario.name} is recorded`),
        (error: unknown) => {
          console.error(scenario.name, error);
          process.exitCode = 1;
        },
      );
    }),
  );
  await server.stop();
  await rm(folder, { recursive: true, force: true });
}
