/** One short life of `visitorExport` per path through the workflow, as `scenarios.ts` has them of `agentJob`. */
import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import type { VisitorExportInput } from '../../src/contract.js';
import type { SandboxOptions } from '../../src/testing.js';
import type { visitorExport } from '../../src/workflows/index.js';
import {
  moving,
  rangeOf,
  startExport,
  startScheduledRun,
  until,
  visitorRequests,
  type ExportSetUp,
} from '../export/export.js';

export type ExportHandle = WorkflowHandle<typeof visitorExport>;

export interface ExportScenario {
  visitors?: SandboxOptions['visitors'];
  /** There is one queue of all exports, which runs beside the first one's workflows: its server is its own. */
  takesTurns?: true;
  /** After which the server suggests to continue as new: on a server of its own. */
  mostEvents?: number;
  /** Prepares upstream and store before the start. */
  prepare?: (setUp: ExportSetUp) => Promise<unknown>;
  /**
   * Starts the runs, and does meanwhile what others would; the recorder waits for their ends. The date range's own run
   * unless it says otherwise.
   */
  start?: (setUp: ExportSetUp) => Promise<ExportHandle[]>;
}

const ROWS = { rows: 600 };
const REJECTED = { kind: 'status', status: 404, operation: 'visitors' } as const;
const BUSY = { kind: 'status', status: 429, operation: 'visitors' } as const;
const AGAIN_AND_AGAIN = 1_000;

/** A run under an id of its own, which writes through the date range's. */
const startAside = (setUp: ExportSetUp) => startExport(setUp, rangeOf(setUp), `export-${randomUUID()}`);

export const EXPORT_SCENARIOS: Record<string, ExportScenario> = {
  'export-waits-its-turn': {
    visitors: ROWS,
    prepare: ({ sandbox }) => sandbox.addFault({ kind: 'delay', delayMs: 2_000, operation: 'visitors' }),
    start: async (setUp) => {
      const writer = await startExport(setUp, rangeOf(setUp));
      return [writer, await startAside(setUp)];
    },
  },
  'export-scheduled-one-rejected': {
    visitors: ROWS,
    prepare: ({ sandbox }) => sandbox.addFault(REJECTED),
    start: async (setUp) => [await startScheduledRun(setUp)],
  },
  'export-inconsistent': { visitors: ROWS, prepare: moveEndlessly },
  'export-invalid-input': { start: (setUp) => startWrong(setUp, { dateTo: '2026-01-01' }) },
  'export-rejected': {
    visitors: ROWS,
    prepare: ({ sandbox }) => sandbox.addFault({ ...REJECTED, nth: 2 }),
  },
  'export-busy': {
    takesTurns: true,
    visitors: ROWS,
    prepare: ({ sandbox }) => sandbox.addFault({ ...BUSY, retryAfter: 1, nth: 2 }),
  },
  'export-store-refuses': {
    visitors: ROWS,
    prepare: ({ root }) => writeFile(join(root, 'staging'), 'in the way'),
    start: async (setUp) => {
      const handle = await startExport(setUp, rangeOf(setUp));
      await new Promise((done) => setTimeout(done, 1_500));
      await rm(join(setUp.root, 'staging'));
      return [handle];
    },
  },
  'export-cancelled': {
    takesTurns: true,
    visitors: ROWS,
    prepare: ({ sandbox }) => sandbox.addFault({ ...BUSY, nth: 2, count: AGAIN_AND_AGAIN }),
    start: async (setUp) => {
      const handle = await startExport(setUp, rangeOf(setUp));
      await until(async () => (await visitorRequests(setUp)) >= 2);
      await handle.cancel();
      return [handle];
    },
  },
  'export-continue-as-new': {
    visitors: ROWS,
    prepare: moveEndlessly,
    mostEvents: 15,
  },
};

async function moveEndlessly(setUp: ExportSetUp): Promise<void> {
  const { upstream } = await moving(setUp, rangeOf(setUp), { kind: 'swap', times: Infinity });
  Object.assign(setUp.upstream, { getVisitors: upstream.getVisitors });
}

async function startWrong(setUp: ExportSetUp, wrong: object): Promise<ExportHandle[]> {
  const { projectId, dateFrom } = rangeOf(setUp);
  const input = 'timeZone' in wrong ? { projectId, ...wrong } : { projectId, dateFrom, ...wrong };
  return [await startExport(setUp, input as VisitorExportInput, `export-${randomUUID()}`)];
}
