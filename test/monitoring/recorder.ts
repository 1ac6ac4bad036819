/** Scrapes workers as Prometheus does: every 15 seconds, with a limit of 10, in real time. */
import { setTimeout as delay } from 'node:timers/promises';

export const SCRAPE_INTERVAL_S = 15;
const SCRAPE_LIMIT_MS = 10_000;

/** What one scrape of a worker got; null where it did not answer in time. */
export type Scrape = string | null;

/** The scrapes of one recording, by the instance; all of the same number. */
export interface Recording {
  /** Of the first scrape, in milliseconds since 1970: what the recorded times are told from. */
  startedAt: number;
  scrapes: Record<string, Scrape[]>;
}

/** Scrapes until `ended` settles; `targets` are ports by instance. */
export async function recordUntil(ended: Promise<unknown>, targets: Record<string, number>): Promise<Recording> {
  const startedAt = Date.now();
  const scrapes: Recording['scrapes'] = Object.fromEntries(Object.keys(targets).map((instance) => [instance, []]));
  let isOver = false;
  const over = ended.finally(() => (isOver = true));
  for (let tick = 0; !isOver; tick++) {
    const wait = delay(Math.max(0, startedAt + tick * SCRAPE_INTERVAL_S * 1_000 - Date.now()));
    await Promise.race([wait, over]);
    if (isOver) break;
    const texts = await Promise.all(Object.values(targets).map(scrape));
    Object.keys(targets).forEach((instance, index) => scrapes[instance]!.push(texts[index]!));
  }
  await over;
  return { startedAt, scrapes };
}

async function scrape(port: number): Promise<Scrape> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`, {
      headers: { connection: 'close' },
      signal: AbortSignal.timeout(SCRAPE_LIMIT_MS),
    });
    return response.ok ? await response.text() : null;
  } catch {
    return null;
  }
}
