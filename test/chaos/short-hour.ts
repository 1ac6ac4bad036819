/**
 * The built product with a shorter hour: all that a queue of requests counts in hours, it counts in these. So a run of
 * minutes sees many hours of a budget. What bounds latency, such as how long a turn is good for, stays as it is.
 */
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Each text of the built product, where it is, and the part of an hour that it stands for. */
const LENGTHS: readonly { file: string; name: string; text: string; hours: number }[] = [
  { file: 'rolling-hour', name: 'HOUR_MS', text: '3_600_000', hours: 1 },
  { file: 'rolling-hour', name: 'STEP_MS', text: '10_000', hours: 1 / 360 },
  { file: 'turn-times', name: 'TRY_AGAIN_MS', text: '20 * 60_000', hours: 1 / 3 },
  { file: 'turn-times', name: 'SOON_MS', text: '60_000', hours: 1 / 60 },
  { file: 'request-budget', name: 'NAMED_MS', text: '15 * 60_000', hours: 1 / 4 },
  { file: 'retry-waits', name: 'LATER_THAN_EXPECTED_MS', text: '1.5 * 3_600_000', hours: 1.5 },
  { file: 'retry-waits', name: 'MAX_BACKSTOP_MS', text: '24 * 3_600_000', hours: 24 },
  // Five minutes of a real hour are of use where no queue answers; less than half a minute is a busy machine's silence.
  { file: 'retry-waits', name: 'FIRST_BACKSTOP_UNKNOWN_MS', text: '5 * 60_000', hours: 1 / 2 },
];
const BACKSTOPS = { file: 'retry-waits', find: '(hours) => hours * 3_600_000' };

/** Makes a copy of the built product below a folder; returns the path of its worker. */
export async function buildWithShortHour(folder: string, hourMs: number): Promise<string> {
  const product = join(folder, 'product');
  await mkdir(product);
  await cp(join(root, 'dist'), join(product, 'dist'), { recursive: true });
  await cp(join(root, 'package.json'), join(product, 'package.json'));
  await symlink(join(root, 'node_modules'), join(product, 'node_modules'));
  const changes = LENGTHS.map(({ file, name, text, hours }) => ({
    file,
    find: `${name} = ${text};`,
    replace: `${name} = ${Math.round(hours * hourMs)};`,
  }));
  changes.push({ ...BACKSTOPS, replace: `(hours) => hours * ${hourMs}` });
  for (const { file, find, replace } of changes) {
    await change(join(product, 'dist/agent-job', `${file}.js`), find, replace);
    await change(join(product, 'dist/workflow-bundle.js'), find, replace);
  }
  return join(product, 'dist/worker.js');
}

async function change(path: string, find: string, replace: string): Promise<void> {
  const text = await readFile(path, 'utf8');
  if (!text.includes(find)) throw new Error(`${path} does not hold "${find}": a short hour would change half of it`);
  await writeFile(path, text.replaceAll(find, replace));
}
