import type { TestWorkflowEnvironment } from '@temporalio/testing';

/**
 * The time of a time-skipping server, in milliseconds. It runs as real time does while anything is under way, and is
 * skipped in `pass` where nothing is.
 */
export class VirtualTime {
  readonly #environment: TestWorkflowEnvironment;
  readonly #freedRuns = new Set<string>();
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

  /** Queries that the server never answered. */
  get unansweredQueries(): number {
    return this.#freedRuns.size;
  }

  async now(): Promise<number> {
    return (this.#latest = Math.max(this.#latest, await this.#environment.currentTimeMs()));
  }

  /** Lets so much time pass, and skips what nobody uses. */
  async pass(ms: number): Promise<void> {
    const before = performance.now();
    await this.#environment.sleep(ms);
    if (performance.now() - before > ms / 2) await this.#freeFromClosedRuns();
  }

  /** Nothing is skipped until what is returned is called. */
  async hold(): Promise<() => void> {
    await this.#testService.lockTimeSkipping({});
    return () => void this.#testService.unlockTimeSkipping({}).catch(() => {});
  }

  get #testService() {
    return this.#environment.connection.testService!; // every time-skipping server has it
  }

  /**
   * A query that comes with the last task of a run that continues as new is never answered by that server, which holds
   * time still for it, and lists the run as open for ever.
   */
  async #freeFromClosedRuns(): Promise<void> {
    const { client, connection, namespace } = this.#environment;
    const listed = await connection.workflowService.listOpenWorkflowExecutions({
      namespace: namespace ?? 'default',
      maximumPageSize: 10_000,
    });
    for (const { execution, type } of listed.executions ?? []) {
      const { workflowId = '', runId = '' } = execution ?? {};
      if (type?.name !== 'requestQueue' || !workflowId || !runId || this.#freedRuns.has(runId)) continue;
      const { status } = await client.workflow.getHandle(workflowId, runId).describe();
      if (status.name !== 'CONTINUED_AS_NEW') continue;
      this.#freedRuns.add(runId);
      await this.#testService.unlockTimeSkipping({});
    }
  }
}
