/** The lines of docs/recipes.md for Python, run with the libraries themselves over a folder of snapshots. */
import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { delimiter } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { manifestKey } from '../../src/exports/snapshots/layout.js';
import { putDay } from '../report/snapshots.js';
import { fetchPythonPackage } from '../support/python-packages.js';
import { makeStore } from './test-store.js';

const run = promisify(execFile);
const DOCS = new URL('../../docs/recipes.md', import.meta.url);
const PACKAGES = ['pandas==3.1.1', 'pyarrow==26.0.1', 'polars==2.1.0'];
/** What is asked of the rows after each block of the page. */
const QUESTIONS = [
  'print(len(files))',
  'print(len(pages), sorted(set(pages.get("projectId", []))), pages.get("human", pd.Series()).sum())',
  'print(table.num_rows)',
  'print(pages.height, pages.select(pl.col("^human$").sum()).rows())',
];

let root: string;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  const { store, ...made } = await makeStore();
  ({ root } = made);
  const rows = Array.from({ length: 50 }, (_, i) => ({ path: `/${i}`, human: 1, ai: 3 * i, total: 5 * i }));
  for (const date of ['2026-01-01', '2026-01-03']) await putDay(store, '007', { date, rows });
  await putDay(store, '007', { date: '2026-01-02', rows: [] });
  await putDay(store, '007', { date: '2026-01-05', rows, drift: { kind: 'totals', offset: 0 } });
  await putDay(store, '007', { date: '2026-01-06', rows, provisional: true });
  // A run that died before its manifest leaves such a file.
  const dead = { projectId: '007', dateFrom: '2026-01-04', dateTo: '2026-01-05' };
  await putDay(store, '007', { date: '2026-01-04', rows });
  await store.remove(manifestKey(dead));
  await putDay(store, '007', { date: '2026-01-01', dateTo: '2026-01-08', rows });
  const folders: string[] = [];
  for (const name of PACKAGES) folders.push(await fetchPythonPackage(name));
  env = { PATH: process.env['PATH'], PYTHONPATH: folders.join(delimiter) };
}, 600_000);
afterAll(() => rm(root, { recursive: true, force: true }));

/** Runs the lines of the page over a folder of snapshots; what they answer. */
async function answers(folder: string): Promise<string[]> {
  const [section = ''] = (await readFile(DOCS, 'utf8')).split('### Pandas, pyarrow').slice(1);
  const blocks = [...section.matchAll(/```python\n([^]*?)```/g)].map(([, lines]) => lines!);
  const program = blocks.map((lines, i) => `${lines.replaceAll('"/snapshots/', `"${folder}/`)}${QUESTIONS[i]}\n`);
  const { stdout } = await run('python3', ['-c', program.join('')], { env });
  return stdout.trim().split('\n');
}

test('the lines read the final, consistent days that manifests name with pandas, pyarrow and Polars', async () => {
  expect(await answers(root)).toEqual(['2', "100 ['007'] 100", '100', '100 [(100,)]']);
});

test('they read a store whose days have no rows', async () => {
  const { root: empty, store } = await makeStore();
  await putDay(store, '007', { date: '2026-01-02', rows: [] });
  expect(await answers(empty)).toEqual(['0', '0 [] 0', '0', '0 []']);
  await rm(empty, { recursive: true });
});
