import type { NativeConnection } from '@temporalio/worker';

const LOOK_UP_LIMIT_MS = 2_000;
const MOST_KEPT = 1_000;

/** Which workflow a run belongs to: the SDK's native part names a run alone where a workflow task fails. */
export class WorkflowNames {
  readonly #names = new Map<string, Promise<string | undefined>>();
  #lookUp: ((runId: string) => Promise<string | undefined>) | undefined;

  /** From now on runs can be looked up. */
  connect(connection: NativeConnection, namespace: string): void {
    this.#lookUp = async (runId) => {
      const { executions } = await connection.withDeadline(Date.now() + LOOK_UP_LIMIT_MS, () =>
        connection.workflowService.listWorkflowExecutions({ namespace, query: `RunId = '${runId}'`, pageSize: 1 }),
      );
      return executions[0]?.execution?.workflowId ?? undefined;
    };
  }

  /** The workflow's id; undefined where Temporal does not tell it soon. Never rejects. */
  async of(runId: string): Promise<string | undefined> {
    if (!this.#lookUp || !/^[\w-]+$/.test(runId)) return undefined;
    const known = this.#names.get(runId) ?? this.#lookUp(runId).catch(() => undefined);
    if (this.#names.size >= MOST_KEPT) this.#names.clear();
    this.#names.set(runId, known);
    const name = await known;
    // A run may be listed a moment later.
    if (name === undefined) this.#names.delete(runId);
    return name;
  }
}
