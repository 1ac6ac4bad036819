import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort, type ManagedProcess, startProcess } from '../../src/local/child-process.js';
import { SandboxControl, type FaultRule, type RateLimits } from '../../src/testing.js';
import { LATE_LINKS } from './faults.js';
import { sandboxProgram } from './worker-fault.js';

interface UpstreamOptions {
  folder: string;
  activeMs: number;
  faults: readonly FaultRule[];
  /** Kept in memory only: an upstream that was killed has forgotten what it took before. */
  rateLimits?: ((start: number) => RateLimits) | undefined;
}

/** The sandbox in a process of its own, which can be killed and comes back with its journal and its faults. */
export class UpstreamProcess {
  readonly url: string;
  readonly journal: string;
  readonly control: SandboxControl;
  readonly #options: UpstreamOptions;
  readonly #port: number;
  readonly #injectedFaults = new Map<string, number>();
  #process: ManagedProcess | undefined;
  #isCalm = false;
  #starts = 0;

  static async start(options: UpstreamOptions): Promise<UpstreamProcess> {
    const upstream = new UpstreamProcess(options, await freePort());
    await upstream.#start();
    return upstream;
  }

  private constructor(options: UpstreamOptions, port: number) {
    this.#options = options;
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.journal = join(options.folder, 'upstream.jsonl');
    this.control = new SandboxControl(this.url);
  }

  /** Kills the process and starts it again after a pause. */
  async restart(pauseMs: number): Promise<void> {
    await this.#countInjectedFaults();
    process.kill(this.#process!.pid, 'SIGKILL');
    await this.#process!.stop(0);
    await pause(pauseMs);
    await this.#start();
  }

  /** No more faults. */
  async calm(): Promise<void> {
    this.#isCalm = true;
    await this.#countInjectedFaults();
    await this.control.clearFaults();
  }

  /** Injected faults by description; those between the last query and a kill are not counted. */
  get injectedFaults(): ReadonlyMap<string, number> {
    return this.#injectedFaults;
  }

  async close(): Promise<void> {
    await this.#process?.stop(500);
  }

  async #start(): Promise<void> {
    const { folder, activeMs, faults } = this.#options;
    this.#process = await startProcess({
      program: process.execPath,
      args: [
        sandboxProgram,
        '--port',
        String(this.#port),
        '--data',
        this.journal,
        '--active-ms',
        String(activeMs),
        '--quiet',
      ],
      env: {},
      logFile: join(folder, 'upstream.log'),
    });
    await this.#untilReady();
    const limits = this.#options.rateLimits?.(this.#starts++);
    if (limits) await this.control.setRateLimits(limits);
    await this.control.addScript(LATE_LINKS);
    if (!this.#isCalm) for (const fault of faults) await this.control.addFault(fault);
  }

  async #untilReady(): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return void (await this.control.counts());
      } catch (error) {
        if (tries === 600 || this.#process?.hasEnded()) throw error;
        await pause(100);
      }
    }
  }

  async #countInjectedFaults(): Promise<void> {
    for (const { rule, injected } of await this.control.faults()) {
      const name = describeFault(rule);
      this.#injectedFaults.set(name, (this.#injectedFaults.get(name) ?? 0) + injected);
    }
  }
}

function describeFault(rule: FaultRule): string {
  const words = [rule.operation === 'get' ? 'read' : 'write', rule.kind];
  if (rule.kind === 'status') words.push(String(rule.status));
  if (rule.kind === 'reset') words.push(`at ${rule.at ?? 'request'}`);
  if (rule.effect) words.push(rule.effect === 'after' ? '(taken)' : '(not taken)');
  return rule.kind === 'reset' && rule.at === 'connect' ? 'connection reset at connect' : words.join(' ');
}
