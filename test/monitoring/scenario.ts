/** What a recorded fault is, and what recordings share. */
import { setTimeout as delay } from 'node:timers/promises';
import { recordUntil, type Recording } from './recorder.js';
import { World, type RecordedWorker } from './world.js';

export interface Scenario {
  /** Of the test file. */
  name: string;
  /** What was injected, for the file's head. */
  fault: string;
  /** The alerts that fire during the run. */
  fires: string[];
  record: (server: { address: string }, folder: string) => Promise<Recording>;
}

const minutes = (count: number) => count * 60_000;
export const pause = (count: number) => delay(minutes(count));

/** Records one worker of a namespace of its own while `run` lasts. */
export function oneWorker(
  namespace: string,
  run: (world: World, worker: RecordedWorker) => Promise<unknown>,
  prepare: (world: World) => Promise<unknown> = async () => {},
): Scenario['record'] {
  return async (server) => {
    const world = await World.open(server, namespace);
    try {
      await prepare(world);
      const worker = await world.startWorker();
      return await recordUntil(run(world, worker), { 'worker-1:9464': worker.port });
    } finally {
      await world.close();
    }
  };
}

/** Exports the last whole days of a project, one snapshot each, the newest `skip` of them left out. */
export async function exportDays(world: World, projectId: string, days: number, skip = 0): Promise<void> {
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  for (let ago = days + skip; ago > skip; ago--) {
    const range = { projectId, dateFrom: day(ago), dateTo: day(ago - 1) };
    await (await world.jobs.exportVisitors(range)).result();
  }
}
