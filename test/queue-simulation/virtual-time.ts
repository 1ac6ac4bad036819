import type { TestWorkflowEnvironment } from '@temporalio/testing';

/**
 * The time of a time-skipping server, in milliseconds. It runs as real time does while anything is under way, and is
 * skipped in `pass` where nothing is.
 */
export class VirtualTime {
  readonly #environment: TestWorkflowEnvironment;
  #latest = 0;

  private constructor(environment: TestWorkflowEnvironment) {
    this.#environment = environment;
  }

  static async of(environment: TestWorkflowEnvironment): Promise<VirtualTime> {
    const time = new VirtualTime(environment);
    await time.now();
    return time;
  }

  /** As the server was last asked. */
  get latest(): number {
    return this.#latest;
  }

  async now(): Promise<number> {
    return (this.#latest = Math.max(this.#latest, await this.#environment.currentTimeMs()));
  }

  /** Lets so much time pass, and skips what nobody uses. */
  async pass(ms: number): Promise<void> {
    await this.#environment.sleep(ms);
  }

  /** Nothing is skipped until what is returned is called. */
  async hold(): Promise<() => void> {
    const testService = this.#environment.connection.testService!; // every time-skipping server has it
    await testService.lockTimeSkipping({});
    return () => void testService.unlockTimeSkipping({}).catch(() => {});
  }
}
