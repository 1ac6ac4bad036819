/**
 * Which decisions about writes in doubt a run tells: those of people, once they are carried out, and the last of them.
 * What the end of `decideWithin` settles is nobody's decision. Pure: no Temporal, no clock.
 */
import { LIMIT, type Decision, type InDoubtWrite, type ResolveUnknownInput } from '../../contract.js';
import { jsonBytes } from '../../contract/input-checks.js';

/**
 * All of them, as JSON: they are in state, result and what continue-as-new hands on, each of which Temporal limits to
 * 2 MiB. The last 100 fit, unless their text is full of characters that JSON escapes.
 */
const MAX_BYTES = 200_000;

export class Decisions {
  readonly #list: Decision[];

  constructor(carried: readonly Decision[]) {
    this.#list = [...carried];
  }

  add(resolution: ResolveUnknownInput, { kind, followUpId }: InDoubtWrite, at: number): void {
    const { action, jobId, by, note } = resolution;
    this.#list.push({
      action,
      kind,
      ...(followUpId !== undefined && { followUpId }),
      ...(jobId != null && { jobId }),
      ...(by != null && { by }),
      ...(note != null && { note }),
      at: new Date(at).toISOString(),
    });
    while (this.#list.length > LIMIT.listedDecisions || jsonBytes(this.#list) > MAX_BYTES) this.#list.shift();
  }

  /** In the order decided. */
  list(): Decision[] {
    return [...this.#list];
  }
}
