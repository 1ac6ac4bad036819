/**
 * The workers' programs: the built product, that of another checkout, or either with a shorter hour. A run of minutes
 * then sees many hours of a budget. What bounds latency, such as how long a turn is valid, stays as it is.
 */
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The text of a length, by how long an hour is. */
type InHours = (hourMs: number) => string;

const hours =
  (count: number): InHours =>
  (hourMs) =>
    String(Math.round(count * hourMs));

/** Each length of the built product: where it is, its text, and what stands there instead. */
const LENGTHS: readonly { file: string; find: string; name: string; instead: InHours }[] = [
  {
    file: 'workflows/request-queue/rolling-window',
    name: 'HOUR',
    find: "new RollingWindow('hour', 3_600_000, 10_000)",
    instead: (hourMs) => `new RollingWindow('hour', ${hourMs}, ${hours(1 / 360)(hourMs)})`,
  },
  {
    file: 'workflows/request-queue/rolling-window',
    name: 'DAY',
    find: "new RollingWindow('day', 24 * 3_600_000, 10 * 60_000)",
    instead: (hourMs) => `new RollingWindow('day', ${24 * hourMs}, ${hours(1 / 6)(hourMs)})`,
  },
  { file: 'workflows/request-queue/budget', name: 'FIRST_CLOSED_MS', find: '30_000', instead: hours(1 / 120) },
  { file: 'workflows/request-queue/budget', name: 'MAX_CLOSED_MS', find: '20 * 60_000', instead: hours(1 / 3) },
  { file: 'workflows/request-queue/budget', name: 'NAMED_MS', find: '15 * 60_000', instead: hours(1 / 4) },
  // A third of a real hour is long enough to take a queue for dead; a third of this one is a busy machine's silence.
  { file: 'agent-job/waits', name: 'ASK_AGAIN_MS', find: '20 * 60_000', instead: hours(1) },
  { file: 'agent-job/waits', name: 'MAX_ASK_AGAIN_MS', find: '6 * 3_600_000', instead: hours(6) },
];

/** The workers' programs, one for each checkout; undefined if all are the built product as it is. */
export async function buildsOf(folder: string, hourMs?: number, otherBuild?: string): Promise<string[] | undefined> {
  if (hourMs === undefined && otherBuild === undefined) return undefined;
  const checkouts = otherBuild === undefined ? [root] : [root, otherBuild];
  return Promise.all(
    checkouts.map((checkout) =>
      hourMs === undefined ? copyBuild(folder, checkout) : buildWithShortHour(folder, hourMs, checkout),
    ),
  );
}

/** Makes a copy of a built checkout below a folder; returns the path of its worker. */
export async function buildWithShortHour(folder: string, hourMs: number, checkout = root): Promise<string> {
  const worker = await copyBuild(folder, checkout);
  for (const { file, name, find, instead } of LENGTHS) {
    const [before, after] = [`${name} = ${find};`, `${name} = ${instead(hourMs)};`];
    await change(join(worker, `../${file}.js`), before, after);
    await change(join(worker, '../workflow-bundle.js'), before, after);
  }
  return worker;
}

/** The same with hours as they are. It runs with the packages of this checkout, which the faults are injected into. */
async function copyBuild(folder: string, checkout: string): Promise<string> {
  const product = await mkdtemp(join(folder, 'product-'));
  await cp(join(checkout, 'dist'), join(product, 'dist'), { recursive: true });
  await cp(join(checkout, 'package.json'), join(product, 'package.json'));
  await symlink(join(root, 'node_modules'), join(product, 'node_modules'));
  return join(product, 'dist/worker.js');
}

async function change(path: string, find: string, replace: string): Promise<void> {
  const text = await readFile(path, 'utf8');
  if (!text.includes(find)) throw new Error(`${path} does not hold "${find}": a short hour would change half of it`);
  await writeFile(path, text.replaceAll(find, replace));
}
