import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startProcess, type ManagedProcess } from '../../src/local/child-process.js';
import { workerFaultArguments, workerProgram, type WorkerFault } from './worker-fault.js';

interface FleetOptions {
  workers: number;
  folder: string;
  env: Record<string, string>;
  /** The worker's builds, one process each in turn; default: the built product's. */
  programs?: readonly string[] | undefined;
  /** The fault of the nth process started; none once the fleet is calm. */
  workerFault: (turn: number) => WorkerFault;
}

/** Several processes of the product's worker; one that ends is started again. */
export class WorkerFleet {
  readonly #options: FleetOptions;
  readonly #running: (ManagedProcess | undefined)[] = [];
  readonly #keepers: Promise<void>[] = [];
  readonly #frozen = new Set<number>();
  #isCalm = false;
  #isClosing = false;
  /** Processes started so far. */
  started = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    for (let slot = 0; slot < options.workers; slot++) this.#keepers.push(this.#keep(slot));
  }

  /** The faults injected within workers, each as `moment action`. */
  workerFaults(): string[] {
    const file = this.#faultLog;
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  }

  /** Kills one worker at once; false if it does not run. */
  kill(slot: number): boolean {
    return this.#signal(slot, 'SIGKILL');
  }

  /** Stops one worker's process and lets it go on after a time, as if nothing had happened. */
  async freeze(slot: number, ms: number): Promise<boolean> {
    const victim = this.#running[slot];
    if (!this.#signal(slot, 'SIGSTOP')) return false;
    this.#frozen.add(slot);
    await pause(ms);
    this.#frozen.delete(slot);
    if (this.#running[slot] === victim) this.#signal(slot, 'SIGCONT');
    return true;
  }

  /** No further faults: new processes get none, and frozen ones continue. */
  calm(): void {
    this.#isCalm = true;
    for (const slot of this.#frozen) this.#signal(slot, 'SIGCONT');
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.#running.map(async (worker) => worker?.stop(0)));
    await Promise.all(this.#keepers);
  }

  get #faultLog(): string {
    return join(this.#options.folder, 'worker-faults.log');
  }

  async #keep(slot: number): Promise<void> {
    while (!this.#isClosing) {
      const worker = await this.#start(slot);
      this.#running[slot] = worker;
      if (this.#isClosing) await worker.stop(0); // started before the close, which did not see it
      const ending = await worker.ended;
      this.#running[slot] = undefined;
      await worker.stop(0);
      if (!this.#isClosing) await pause(ending === 'SIGKILL' ? 300 : 1_000);
    }
  }

  #start(slot: number): Promise<ManagedProcess> {
    const { workerFault, folder, env, programs = [workerProgram] } = this.#options;
    const faultArguments = this.#isCalm ? [] : workerFaultArguments(workerFault(this.started), this.#faultLog);
    const program = programs[this.started % programs.length]!;
    this.started += 1;
    return startProcess({
      program: process.execPath,
      args: [...faultArguments, program],
      env,
      logFile: join(folder, `worker-${slot}.log`),
    });
  }

  #signal(slot: number, signal: NodeJS.Signals): boolean {
    const worker = this.#running[slot];
    if (!worker || worker.hasEnded()) return false;
    process.kill(worker.pid, signal);
    return true;
  }
}
