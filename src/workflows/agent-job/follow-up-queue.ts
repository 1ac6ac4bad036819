/**
 * The one queue of follow-ups, for signals and updates alike. What an id that is said twice is answered is decided in
 * handlers.ts, for a caller over HTTP that does not wait in http/jobs.ts, and after the run's end in
 * client/agent-job/follow-up-after-end.ts. Pure: no Temporal, no clock.
 */
import { LIMIT, type FollowUpState, type FollowUpStatus, type Priority, type PromptHashes } from '../../contract.js';
import { isOtherPrompt, promptHash } from '../../agent-job/input.js';
import { cutToBytes, jsonBytes } from '../../contract/input-checks.js';

interface QueuedFollowUp {
  id: string;
  prompt: string;
  /** When it was queued, in milliseconds. */
  askedAt: number;
  /** Its own; absent where the job's holds. */
  priority?: Priority;
  /** It was queued in a run that an operator had reset: somebody must be asked before it is sent. */
  requiresConfirmation?: true;
}

/** What continue-as-new hands on. */
export interface CarriedFollowUps {
  /** In the order queued, overflows last in their order. */
  list: (FollowUpStatus & { promptHash?: string })[];
  queue: QueuedFollowUp[];
  /** Ids that runs before this workflow used up. */
  givenIds: string[];
  /** Ids that a signal said again with another prompt, which is sent nowhere; the last ones. */
  conflicts: string[];
}

/** What a workflow that continues no other begins with. */
export function noFollowUps(givenIds: string[]): CarriedFollowUps {
  return { list: [], queue: [], givenIds, conflicts: [] };
}

/** All ids together, as JSON: they are three times in state and result, which Temporal limits to 2 MiB. */
const MAX_ID_BYTES = 400_000;
/** A page shows no more. */
const MAX_CONFLICTS = 20;

export class FollowUps {
  readonly #entries = new Map<string, FollowUpStatus>();
  readonly #overflows: FollowUpStatus[] = [];
  readonly #queue: QueuedFollowUp[];
  readonly #givenIds: Set<string>;
  readonly #promptHashes = new Map<string, string>();
  readonly #conflicts: Set<string>;
  #waitingBytes: number;
  #idBytes: number;

  constructor({ list, queue, givenIds, conflicts }: CarriedFollowUps) {
    for (const { promptHash: hash, ...entry } of list) {
      if (hash !== undefined) this.#promptHashes.set(entry.id, hash);
      if (entry.state === 'abandoned') this.#overflows.push(entry);
      else this.#entries.set(entry.id, entry);
    }
    this.#queue = queue;
    this.#givenIds = new Set(givenIds);
    this.#conflicts = new Set(conflicts);
    this.#waitingBytes = sum(queue.map(({ prompt }) => jsonBytes(prompt)));
    this.#idBytes = sum([...givenIds, ...this.#entries.keys()].map(jsonBytes));
  }

  /** The one whose turn it is; it stays first until it is settled. */
  get next(): QueuedFollowUp | undefined {
    return this.#queue[0];
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Whether a follow-up under this id was taken before; the same id is sent at most once. */
  isUsed(id: string): boolean {
    return this.#entries.has(id) || this.#givenIds.has(id);
  }

  /** Whether the id was taken before with another prompt, as far as that is known. */
  isConflict(id: string, prompt: string): boolean {
    return isOtherPrompt(this.#promptHashes.get(id), prompt);
  }

  /** Lists an id that was said again with another prompt. */
  addConflict(id: string): void {
    this.#conflicts.delete(id);
    this.#conflicts.add(id);
    if (this.#conflicts.size > MAX_CONFLICTS) this.#conflicts.delete(this.conflicts[0]!);
  }

  get conflicts(): string[] {
    return [...this.#conflicts];
  }

  /** The fate of an id; `unknown` for one that a run before this workflow used up, since only the ids are handed on. */
  stateOf(id: string): FollowUpState | undefined {
    return this.#entries.get(id)?.state ?? (this.#givenIds.has(id) ? 'unknown' : undefined);
  }

  hasRoomFor(id: string, prompt: string): boolean {
    return (
      this.#entries.size + this.#givenIds.size < LIMIT.followUpsPerJob &&
      this.#waitingBytes + jsonBytes(prompt) <= LIMIT.waitingPromptsJsonBytes &&
      this.#idBytes + jsonBytes(id) <= MAX_ID_BYTES
    );
  }

  add(followUp: QueuedFollowUp): void {
    this.#dropOverflow(followUp.id);
    this.#entries.set(followUp.id, { id: followUp.id, state: 'queued' });
    this.#promptHashes.set(followUp.id, promptHash(followUp.prompt));
    this.#queue.push(followUp);
    this.#waitingBytes += jsonBytes(followUp.prompt);
    this.#idBytes += jsonBytes(followUp.id);
  }

  /** Lists a signal that met a full queue; its id is free again. */
  overflow(id: string): void {
    this.#dropOverflow(id);
    this.#overflows.push({ id, state: 'abandoned', error: 'queue full' });
    if (this.#overflows.length > LIMIT.listedOverflows) this.#overflows.shift();
  }

  #dropOverflow(id: string): void {
    const listed = this.#overflows.findIndex((entry) => entry.id === id);
    if (listed >= 0) this.#overflows.splice(listed, 1);
  }

  /** Shows the first one as queued or unknown while its turn goes on. */
  showNextAs(state: 'queued' | 'unknown'): void {
    const followUp = this.next;
    if (followUp) this.#entries.set(followUp.id, { id: followUp.id, state });
  }

  /** Ends the turn of the first one. */
  settleNext(state: 'sent' | 'rejected' | 'unknown', error?: string): void {
    const followUp = this.#queue.shift();
    if (!followUp) return;
    this.#waitingBytes -= jsonBytes(followUp.prompt);
    this.#entries.set(followUp.id, {
      id: followUp.id,
      state,
      ...(error === undefined ? {} : { error: cutToBytes(error.replace(/\p{Cc}+/gu, ' '), LIMIT.followUpErrorBytes) }),
    });
  }

  /** The run ends for another reason: what still waits was surely never sent. */
  abandonQueued(): void {
    for (const followUp of this.#queue.splice(0)) {
      this.#entries.set(followUp.id, { id: followUp.id, state: 'abandoned' });
      this.#promptHashes.delete(followUp.id);
    }
    this.#waitingBytes = 0;
  }

  statuses(): FollowUpStatus[] {
    return [...this.#entries.values(), ...this.#overflows];
  }

  usedIds(): string[] {
    const listed = [...this.#entries.values()].filter(({ state }) => state !== 'abandoned').map(({ id }) => id);
    return [...this.#givenIds, ...listed];
  }

  promptHashes(): PromptHashes {
    return Object.fromEntries(this.#promptHashes);
  }

  /** For the next run; `requiresConfirmation` marks all that waits as queued in a reset run. */
  carry(requiresConfirmation: boolean): CarriedFollowUps {
    return {
      list: this.statuses().map((entry) => {
        const hash = this.#promptHashes.get(entry.id);
        return hash === undefined ? entry : { ...entry, promptHash: hash };
      }),
      queue: requiresConfirmation
        ? this.#queue.map((followUp) => ({ ...followUp, requiresConfirmation }))
        : this.#queue,
      givenIds: [...this.#givenIds],
      conflicts: this.conflicts,
    };
  }
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
