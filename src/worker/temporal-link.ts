/**
 * One connection to Temporal after another, behind objects that stay. The native client can't change its certificate,
 * so new credentials need a new connection. Activities and clients keep the connection that they began with, for hours:
 * all calls of every connection here go over the newest one.
 */
import type { AsyncLocalStorage } from 'node:async_hooks';
import type { NativeConnection, Worker } from '@temporalio/worker';

const SERVICES = ['workflowService', 'operatorService', 'healthService'] as const;
type Service = (typeof SERVICES)[number];
type Send = NonNullable<NativeConnection[Service]['rpcImpl']>;

/** What is done to each connection before anybody uses it. */
type Prepare = (connection: NativeConnection) => void;

export class TemporalLink {
  /** The first connection: it may be kept, and always reaches Temporal as the newest one does. */
  readonly connection: NativeConnection;
  readonly #prepare: Prepare;
  readonly #sends = new Map<Service, Send>();
  #newest: NativeConnection;

  constructor(first: NativeConnection, prepare: Prepare = () => {}) {
    this.connection = first;
    this.#newest = first;
    this.#prepare = prepare;
    this.#lead(first);
  }

  /** From now on workers and all calls use this connection; what is under way on the one before comes to its end. */
  async replace(next: NativeConnection, workers: readonly Worker[]): Promise<void> {
    const before = this.#newest;
    // Deadlines are in the storage of the connection that a call was made with.
    const { callContextStorage } = this.connection;
    Object.assign(next, { callContextStorage } satisfies { callContextStorage: AsyncLocalStorage<unknown> });
    this.#lead(next);
    this.#newest = next;
    for (const worker of workers) worker.connection = next;
    await before.close();
  }

  async close(): Promise<void> {
    await this.#newest.close();
  }

  /** Takes the connection's own way to the server into use, for the calls of all connections. */
  #lead(connection: NativeConnection): void {
    this.#prepare(connection);
    for (const name of SERVICES) {
      const service = connection[name];
      this.#sends.set(name, service.rpcImpl!);
      service.rpcImpl = (...call) => this.#sends.get(name)!(...call);
    }
  }
}
