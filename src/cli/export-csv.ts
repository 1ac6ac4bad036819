import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import type { SnapshotManifest } from '../contract.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { EXIT, UsageError } from './exit.js';
import { addRangeOptions, todayByUtc, toRange, type RangeFlags } from './export-range.js';
import { jsonLine } from '../agent-job/terminal-text.js';
import { printToStderr } from './session.js';
import { addSnapshotsOption, openSnapshots, tellNone, type SnapshotsFlags } from './snapshots-option.js';
import { forStdout } from './text.js';

interface CsvFlags extends RangeFlags, SnapshotsFlags {
  project: string;
  totals?: boolean;
  bom?: boolean;
  json?: boolean;
  output?: string;
}

const BOM = '\uFEFF';
/** Bounds the text in memory. */
const LINES_AT_ONCE = 2_000;
/**
 * Where a spreadsheet may see the beginning of a formula: also after a semicolon, tab or line end, since a spreadsheet
 * that separates by these ignores commas and quotes.
 */
const FORMULA = /(^|[;\t\r\n])(?=[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠])|^(?=[\t\r])/gu;

export function addExportCsv(group: Command): void {
  const command = group
    .command('csv')
    .description('daily pages, or daily totals, as CSV for a spreadsheet')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--totals', 'one line a day: the totals of the whole site')
    .option('--output <file>', 'write to a file (default: stdout)')
    .option('--bom', 'begin with a byte order mark, by which Excel knows UTF-8')
    .option('--json', 'the same rows as JSON, one a line');
  addSnapshotsOption(addRangeOptions(command)).action(async (flags: CsvFlags) => {
    if (flags.json && flags.bom) throw new UsageError('--bom is for CSV: JSON has no byte order mark');
    const store = await openSnapshots(flags);
    if (flags.output !== undefined) return pipeline(textOf(store, flags), createWriteStream(flags.output));
    for await (const text of textOf(store, flags)) {
      if (!process.stdout.write(forStdout(text))) await once(process.stdout, 'drain');
    }
  });
}

async function* textOf(store: SnapshotStore, flags: CsvFlags): AsyncGenerator<string> {
  if (flags.bom) yield BOM;
  yield* flags.totals ? totalLines(store, flags) : pageLines(store, flags);
}

/** Snapshots of one day only: no others add up to a time line. One that can't have begun is no part of it either. */
async function* dailyManifests(store: SnapshotStore, flags: CsvFlags): AsyncGenerator<SnapshotManifest> {
  const { readSnapshots } = await import('../snapshots/catalog.js');
  const { isOneDay, mayHaveBegun } = await import('../snapshots/days.js');
  const { isAsWritten } = await import('../snapshots/manifest.js');
  const today = todayByUtc();
  const { dateFrom, dateTo } = toRange(flags, { dateFrom: '0000-01-01', dateTo: '9999-12-31' });
  let count = 0;
  for await (const { found, manifest } of readSnapshots(store, flags.project)) {
    if (!isOneDay(found) || !mayHaveBegun(found, today)) continue;
    if (found.dateFrom < dateFrom || found.dateTo > dateTo) continue;
    count += 1;
    if (manifest && isAsWritten(manifest)) yield manifest;
    else tellLeftOut(`${store.urlOf(found.folder)}/manifest.json`, 'damaged');
  }
  if (count === 0) tellNone(store, flags.project);
}

async function* totalLines(store: SnapshotStore, flags: CsvFlags): AsyncGenerator<string> {
  const columns = ['date', 'human', 'ai', 'total', 'paths', 'consistent', 'provisional'] as const;
  const lineOf = lineWriter(columns, flags);
  if (!flags.json) yield csvLine(columns);
  for await (const { dateFrom, totals, rows, consistent, provisional } of dailyManifests(store, flags)) {
    yield lineOf([dateFrom, totals.human, totals.ai, totals.total, rows, consistent, provisional]);
  }
}

async function* pageLines(store: SnapshotStore, flags: CsvFlags): AsyncGenerator<string> {
  const { readRows } = await import('../snapshots/read-rows.js');
  const columns = ['date', 'path', 'human', 'ai', 'total', 'consistent', 'provisional'] as const;
  const lineOf = lineWriter(columns, flags);
  if (!flags.json) yield csvLine(columns);
  for await (const manifest of dailyManifests(store, flags)) {
    const { dateFrom, consistent, provisional } = manifest;
    for (const { name } of manifest.files) {
      const bytes = await readFile(store, manifest, name);
      if (!bytes) continue;
      for await (const { path, human, ai, total, length } of readRows(bytes)) {
        let text = '';
        for (let i = 0; i < length; i++) {
          const counts = [human[i], ai[i], total[i]] as [bigint, bigint, bigint];
          text += lineOf([dateFrom, path[i] as string, ...counts, consistent, provisional]);
          if (i % LINES_AT_ONCE !== LINES_AT_ONCE - 1) continue;
          yield text;
          text = '';
        }
        yield text;
      }
    }
  }
}

/** Null where it is missing or damaged, which is told. */
async function readFile(store: SnapshotStore, manifest: SnapshotManifest, name: string): Promise<Buffer | null> {
  const { snapshotFolder } = await import('../snapshots/layout.js');
  const key = `${snapshotFolder(manifest)}/${name}`;
  const bytes = await store.read(key);
  const { sha256Hex } = await import('../snapshots/content-digest.js');
  if (bytes && sha256Hex(bytes) === manifest.files.find((file) => file.name === name)?.sha256) return bytes;
  tellLeftOut(store.urlOf(key), bytes ? 'damaged' : 'missing');
  return null;
}

/** An error in the end; the other days are written. */
function tellLeftOut(url: string, state: 'damaged' | 'missing'): void {
  printToStderr(`agent-jobs: ${url} is ${state}, its day is left out; "agent-jobs export verify" tells more`);
  process.exitCode = EXIT.error;
}

type Value = string | number | boolean | bigint;

/** How a row becomes a line. Counts are at most 2^53 - 1, which JSON numbers hold. */
function lineWriter(columns: readonly string[], { json }: CsvFlags): (values: readonly Value[]) => string {
  if (!json) return csvLine;
  return (values) => {
    const cells = values.map((value) => (typeof value === 'bigint' ? Number(value) : value));
    return `${jsonLine(Object.fromEntries(columns.map((column, i) => [column, cells[i]])))}\n`;
  };
}

/** One line of CSV (RFC 4180). Numbers stay numbers; text that a spreadsheet would run begins with an apostrophe. */
function csvLine(cells: readonly Value[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

function csvCell(value: Value): string {
  if (typeof value !== 'string') return String(value);
  const text = value.replaceAll(FORMULA, "$1'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
