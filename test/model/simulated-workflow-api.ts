/** What the workflow's code imports from `@temporalio/workflow`, on the simulated server. */
import { ContinueAsNew, Simulation, type Handler, type Validator } from './simulation.js';

class SimulatedScope {
  readonly #cancels: (() => void)[] = [];

  static current() {
    return { cancelRequested: Simulation.current.run.cancelRequested };
  }

  static nonCancellable<T>(work: () => Promise<T>): Promise<T> {
    return work();
  }

  onCancel(cancel: () => void): void {
    this.#cancels.push(cancel);
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    Simulation.current.scopes.push(this);
    try {
      return work();
    } finally {
      Simulation.current.scopes.pop();
    }
  }

  cancel(): void {
    for (const cancel of this.#cancels.splice(0)) cancel();
  }
}

/** Replaces `@temporalio/workflow` by `vi.mock`. */
export const simulatedWorkflow = {
  CancellationScope: SimulatedScope,
  allHandlersFinished: () => Simulation.current.run.handling === 0,
  condition: (isTrue: () => boolean, ms?: number) => Simulation.current.condition(isTrue, ms),
  currentUpdateInfo: () =>
    Simulation.current.updateId === undefined ? undefined : { id: Simulation.current.updateId },
  getExternalWorkflowHandle: () => ({ signal: () => Simulation.current.signalExternal() }),
  log: { info: () => {}, warn: () => {} },
  makeContinueAsNewFunc:
    ({ memo }: { memo: Record<string, unknown> }) =>
    (input: unknown) =>
      // As the next run reads it: what this one still does changes nothing there.
      Promise.reject(new ContinueAsNew(JSON.parse(JSON.stringify(input)), memo)),
  metricMeter: { createCounter: () => ({ add: () => {} }) },
  patched: () => true,
  proxyActivities: () =>
    new Proxy({}, { get: (_, name) => (input: unknown) => Simulation.current.startActivity(String(name), input) }),
  proxySinks: () => ({}),
  setCurrentDetails: () => {},
  setHandler: ({ name }: { name: string }, handle: Handler, options?: { validator?: Validator }) =>
    Simulation.current.run.handlers.set(name, { handle, validate: options?.validator }),
  upsertMemo: () => {},
  upsertSearchAttributes: (pairs: { key: { name: string }; value: unknown }[]) => {
    for (const { key, value } of pairs) Simulation.current.attributes.set(key.name, value);
  },
  uuid4: () => Simulation.current.uuid(),
  workflowInfo: () => Simulation.current.workflowInfo(),
};
