/** Writes through the upstream client alone, without Temporal, as many as time allows: how it classifies faults. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SANDBOX_API_KEY, type FaultRule } from '../../src/testing.js';
import { createUpstream } from '../../src/upstream/client.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { UpstreamJournal } from './upstream-journal.js';
import { UpstreamProcess } from './upstream-process.js';

interface ClientWritesOptions {
  writes: number;
  writesPerJob: number;
  concurrency: number;
  faults: readonly FaultRule[];
  /** No further job is begun after this time. */
  loadMs: number;
  say: (line: string) => void;
}

export interface ClientWritesReport {
  writes: number;
  /** Requests sent again because they were surely not sent or not taken, by reason. */
  repeated: Map<string, number>;
  inDoubt: Map<string, number>;
  rejected: number;
  injectedFaults: ReadonlyMap<string, number>;
  doubled: string[];
  lost: string[];
  seconds: number;
}

type Fate = 'accepted' | 'rejected' | 'unauthorized' | 'inDoubt';

/** Sends each write until its fate is known or unknowable, then compares with the upstream's journal. */
export async function runClientWrites(options: ClientWritesOptions): Promise<ClientWritesReport> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-chaos-'));
  const process_ = await UpstreamProcess.start({ folder, activeMs: 0, faults: options.faults });
  const keys = { keyFor: () => Promise.resolve(SANDBOX_API_KEY), refresh: () => Promise.resolve(null) };
  const upstream = createUpstream({ baseUrl: process_.url, keys, timeoutMs: 5_000, notTakenStatuses: [] });
  const startedAt = Date.now();
  const run = new ClientWrites(upstream, options, startedAt + options.loadMs);
  try {
    await run.complete();
    await process_.calm();
    const journal = new UpstreamJournal(process_.journal);
    journal.refresh();
    return {
      ...run.compare(journal),
      injectedFaults: process_.injectedFaults,
      seconds: (Date.now() - startedAt) / 1_000,
    };
  } finally {
    await upstream.close();
    await process_.close();
  }
}

class ClientWrites {
  readonly #upstream: Upstream;
  readonly #options: ClientWritesOptions;
  readonly #endAt: number;
  readonly #fates = new Map<string, Fate>();
  readonly #repeated = new Map<string, number>();
  readonly #inDoubt = new Map<string, number>();
  #jobs = 0;

  constructor(upstream: Upstream, options: ClientWritesOptions, endAt: number) {
    this.#upstream = upstream;
    this.#options = options;
    this.#endAt = endAt;
  }

  async complete(): Promise<void> {
    const progress = setInterval(() => this.#options.say(`${this.#fates.size} writes`), 60_000);
    await Promise.all(Array.from({ length: this.#options.concurrency }, () => this.#service()));
    clearInterval(progress);
  }

  compare(journal: UpstreamJournal): Omit<ClientWritesReport, 'injectedFaults' | 'seconds'> {
    const times = new Map<string, number>();
    for (const [prompt, jobs] of journal.jobsOfPrompt) times.set(prompt, jobs.length);
    for (const prompts of journal.messagesOfJob.values()) {
      for (const prompt of prompts) times.set(prompt, (times.get(prompt) ?? 0) + 1);
    }
    const fates = [...this.#fates];
    const timesOf = (prompt: string) => times.get(prompt) ?? 0;
    return {
      writes: fates.length,
      repeated: this.#repeated,
      inDoubt: this.#inDoubt,
      rejected: fates.filter(([, fate]) => fate === 'rejected').length,
      doubled: fates
        .filter(([prompt, fate]) => timesOf(prompt) > (fate === 'rejected' ? 0 : 1))
        .map(([prompt]) => prompt),
      lost: fates.filter(([prompt, fate]) => fate === 'accepted' && timesOf(prompt) === 0).map(([prompt]) => prompt),
    };
  }

  async #service(): Promise<void> {
    while (this.#fates.size < this.#options.writes && Date.now() < this.#endAt) await this.#oneJob(++this.#jobs);
  }

  async #oneJob(number: number): Promise<void> {
    const projectId = `p${number % 50}`;
    const prompt = `job ${number}`;
    let jobId: string | undefined;
    await this.#write(prompt, async () => {
      const outcome = await this.#upstream.createJob({ projectId, prompt });
      if (outcome.kind === 'accepted') jobId = outcome.jobId;
      return outcome;
    });
    if (jobId === undefined) return;
    const id = jobId;
    for (let message = 1; message < this.#options.writesPerJob; message++) {
      const text = `job ${number} message ${message}`;
      await this.#write(text, () => this.#upstream.sendMessage({ projectId, jobId: id, prompt: text }));
    }
  }

  async #write(prompt: string, send: () => Promise<WriteOutcome>): Promise<void> {
    for (;;) {
      const outcome = await send();
      if (outcome.kind === 'notDelivered' || outcome.kind === 'throttled' || outcome.kind === 'held') {
        count(this.#repeated, `${outcome.kind}: ${outcome.reason.replace(/ \(.*/, '')}`);
        await pause(outcome.kind === 'throttled' ? 1_000 : 50);
        continue;
      }
      if (outcome.kind === 'inDoubt') count(this.#inDoubt, outcome.reason);
      this.#fates.set(prompt, outcome.kind);
      return;
    }
  }
}

function count(tallies: Map<string, number>, name: string): void {
  tallies.set(name, (tallies.get(name) ?? 0) + 1);
}
