import type { ControlCommands } from './control-commands.js';

type Name = keyof ControlCommands;
type Argument<N extends Name> = Parameters<ControlCommands[N]>[0];
type Result<N extends Name> = ReturnType<ControlCommands[N]>;

/** Carries one command to a sandbox; rejects with the sandbox's message where it refuses. */
export type SendCommand = <N extends Name>(name: N, argument: Argument<N>) => Promise<Result<N>>;

/**
 * The control of a sandbox, in this process or (by its URL) in another one. Every method is one command, which any
 * language can send as `POST <url>/__sandbox/<name>` with its argument as JSON.
 */
export class SandboxControl {
  readonly #send: SendCommand;

  constructor(urlOrSend: string | SendCommand) {
    this.#send = typeof urlOrSend === 'string' ? sendOverHttp(urlOrSend) : urlOrSend;
  }

  /** Adds one fault rule after those already there; the first rule that applies wins. */
  addFault(rule: Argument<'addFault'>): Promise<Result<'addFault'>> {
    return this.#send('addFault', rule);
  }

  /** Adds faults of many kinds at random. */
  chaos(chaos: Argument<'chaos'>): Promise<Result<'chaos'>> {
    return this.#send('chaos', chaos);
  }

  async clearFaults(): Promise<void> {
    await this.#send('clearFaults', undefined);
  }

  /** The rules, with how often each matched a request and injected its fault. */
  faults(): Promise<Result<'faults'>> {
    return this.#send('faults', undefined);
  }

  /** Replaces the default script of jobs created from now on. */
  async setScript(script: Argument<'setScript'>): Promise<void> {
    await this.#send('setScript', script);
  }

  /** Gives the next create, or those that match, a script of its own. */
  async addScript(rule: Argument<'addScript'>): Promise<void> {
    await this.#send('addScript', rule);
  }

  /** Puts a job into a state until the next message; rejects where there is no such job. */
  async setJob(change: Argument<'setJob'>): Promise<void> {
    await this.#send('setJob', change);
  }

  /** Removes a job: requests for it get a 404 from now on. */
  async removeJob(id: string): Promise<void> {
    await this.#send('removeJob', { id });
  }

  /** The current record, not counted as a read; null where there is no such job. */
  job(id: string): Promise<unknown> {
    return this.#send('job', { id });
  }

  /** Creates that took effect, in order. */
  creates(filter: Argument<'creates'> = {}): Promise<Result<'creates'>> {
    return this.#send('creates', filter);
  }

  /** Messages that took effect, in order per job. */
  messages(filter: Argument<'messages'> = {}): Promise<Result<'messages'>> {
    return this.#send('messages', filter);
  }

  counts(): Promise<Result<'counts'>> {
    return this.#send('counts', undefined);
  }

  /** Resets the counts of requests, faults and redirect visits; jobs, messages and connections stay. */
  async resetCounts(): Promise<void> {
    await this.#send('resetCounts', undefined);
  }

  /** The last requests, oldest first; at most `keptRequests` of the options. */
  requests(filter: Argument<'requests'> = {}): Promise<Result<'requests'>> {
    return this.#send('requests', filter);
  }

  /** Replaces the accepted keys. */
  async setKeys(keys: Argument<'setKeys'>['keys']): Promise<void> {
    await this.#send('setKeys', { keys });
  }

  /** Replaces the limits and forgets the requests counted so far. */
  async setRateLimits(limits: Argument<'setRateLimits'>): Promise<void> {
    await this.#send('setRateLimits', limits);
  }

  /** Replaces what the visitor export shows, for one project or for all that have no settings of their own. */
  async setVisitors(settings: Argument<'setVisitors'>): Promise<void> {
    await this.#send('setVisitors', settings);
  }

  /** What a complete export of the date range must hold once all its data have arrived. */
  expectedSnapshot(window: Argument<'expectedSnapshot'>): Promise<Result<'expectedSnapshot'>> {
    return this.#send('expectedSnapshot', window);
  }

  /** The sandbox's time, ISO 8601. */
  async now(): Promise<string> {
    return (await this.#send('now', undefined)).now;
  }

  /** Moves the sandbox's time forward and returns the new time. */
  async advance(ms: number): Promise<string> {
    return (await this.#send('advance', { ms })).now;
  }

  /** Closes all idle connections at once. */
  async closeIdleConnections(): Promise<void> {
    await this.#send('closeIdleConnections', undefined);
  }
}

/** A connection that a fault at `connect` resets has carried no command, so a retry is safe. */
const MAX_ATTEMPTS = 5;

function sendOverHttp(url: string): SendCommand {
  return async (name, argument) => {
    const response = await post(`${url}/__sandbox/${name}`, JSON.stringify(argument ?? null));
    const { result, error } = (await response.json()) as { result: never; error?: string };
    if (!response.ok) throw new Error(error ?? `sandbox control ${name}: ${response.status}`);
    return result;
  };
}

async function post(url: string, body: string): Promise<Response> {
  for (let tries = 1; ; tries++) {
    try {
      return await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    } catch (error) {
      if (tries === MAX_ATTEMPTS) throw error;
    }
  }
}
