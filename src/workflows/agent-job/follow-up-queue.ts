/**
 * The one queue of follow-ups, for signals and updates alike. Decides whether an id is used, and whether there is room
 * for another follow-up. Pure: no Temporal, no clock.
 */
import { LIMIT, type FollowUpState, type FollowUpStatus, type Priority, type PromptHashes } from '../../contract.js';
import { isOtherPrompt, promptHash } from '../../agent-job/input.js';
import { cutToBytes, jsonBytes } from '../../contract/shared.js';

interface KeptFollowUp {
  id: string;
  prompt: string;
  /** When it was queued, in milliseconds. */
  askedAt: number;
  /** Its own; absent if the job's holds. */
  priority?: Priority;
  /** It was queued in a run that an operator had reset: a person must be asked before it is sent. */
  requiresConfirmation?: true;
}

/** A follow-up that was taken, and which prompt its id names. */
type Entry = FollowUpStatus & { promptHash?: string };

/** What continue-as-new hands on. */
export interface CarriedFollowUps {
  /** In the order queued, overflows last in their order. */
  list: Entry[];
  queue: KeptFollowUp[];
  /** Ids that runs before this workflow used up. */
  givenIds: string[];
  /** Of these, the hashes of their prompts, as far as they are known. */
  givenHashes?: PromptHashes;
}

/** What a workflow that continues no other begins with. */
export function noFollowUps(givenIds: string[], givenHashes: PromptHashes = {}): CarriedFollowUps {
  return { list: [], queue: [], givenIds, givenHashes };
}

/** All ids of a job, as JSON: they are up to three times in state and result, which Temporal limits to 2 MiB. */
const MAX_ID_BYTES = 400_000;

/** The follow-ups of one run. */
export class FollowUps {
  readonly #entries = new Map<string, Entry>();
  /** Signals that met a full queue: their ids are free again. */
  readonly #overflows = new Map<string, Entry>();
  readonly #queue: KeptFollowUp[];
  readonly #givenIds: Set<string>;
  readonly #givenHashes: Map<string, string>;
  #waitingBytes: number;

  constructor({ list, queue, givenIds, givenHashes = {} }: CarriedFollowUps) {
    for (const entry of list) (entry.state === 'abandoned' ? this.#overflows : this.#entries).set(entry.id, entry);
    this.#queue = queue;
    this.#givenIds = new Set(givenIds);
    this.#givenHashes = new Map(Object.entries(givenHashes).filter(([id]) => this.#givenIds.has(id)));
    this.#waitingBytes = sizeOf(queue.map(({ prompt }) => prompt));
  }

  /** The one that is to be sent; it stays first until it is resolved. */
  get next(): KeptFollowUp | undefined {
    return this.#queue[0];
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Whether a follow-up under this id was taken before; the same id is sent at most once. */
  isUsed(id: string): boolean {
    return this.stateOf(id) !== undefined;
  }

  /** Whether the id was taken before with another prompt, as far as that is known. */
  isConflict(id: string, prompt: string): boolean {
    return isOtherPrompt(this.#entries.get(id)?.promptHash ?? this.#givenHashes.get(id), prompt);
  }

  /** The state of an id; `unknown` for one of a run before this workflow, which hands on the ids alone. */
  stateOf(id: string): FollowUpState | undefined {
    return this.#entries.get(id)?.state ?? (this.#givenIds.has(id) ? 'unknown' : undefined);
  }

  hasRoomFor(id: string, prompt: string): boolean {
    const ids = [...this.#givenIds, ...this.#entries.keys(), id];
    return (
      ids.length <= LIMIT.followUpsPerJob &&
      sizeOf(ids) <= MAX_ID_BYTES &&
      this.#waitingBytes + jsonBytes(prompt) <= LIMIT.waitingPromptsJsonBytes
    );
  }

  add(followUp: KeptFollowUp): void {
    const { id, prompt } = followUp;
    this.#overflows.delete(id);
    this.#entries.set(id, { id, state: 'queued', promptHash: promptHash(prompt) });
    this.#queue.push(followUp);
    this.#waitingBytes += jsonBytes(prompt);
  }

  /** Lists a signal that met a full queue. */
  overflow(id: string): void {
    this.#overflows.delete(id);
    this.#overflows.set(id, { id, state: 'abandoned', error: 'queue full' });
    for (const oldest of this.#overflows.keys()) {
      if (this.#overflows.size > LIMIT.listedOverflows) this.#overflows.delete(oldest);
    }
  }

  /** Shows the first one as queued or unknown while it stays first. */
  showNextAs(state: FollowUpState, error?: string): void {
    const known = this.next && this.#entries.get(this.next.id);
    if (!known) return;
    const shown = error === undefined ? {} : { error: shownError(error) };
    this.#entries.set(known.id, { ...known, state, ...shown });
  }

  /** Ends the place of the first one. */
  resolveNext(state: 'sent' | 'rejected' | 'unknown', error?: string): void {
    this.showNextAs(state, error);
    this.#waitingBytes -= sizeOf(this.#queue.splice(0, 1).map(({ prompt }) => prompt));
  }

  /** The run ends for another reason: what still waits was surely never sent. */
  abandonQueued(): void {
    for (const { id } of this.#queue.splice(0)) this.#entries.set(id, { id, state: 'abandoned' });
    this.#waitingBytes = 0;
  }

  statuses(): FollowUpStatus[] {
    return this.#list().map(({ promptHash: _, ...status }) => status);
  }

  usedIds(): string[] {
    const listed = [...this.#entries.values()].filter(({ state }) => state !== 'abandoned').map(({ id }) => id);
    return [...this.#givenIds, ...listed];
  }

  promptHashes(): PromptHashes {
    const own = this.#list().map(({ id, promptHash: hash }) => [id, hash] as const);
    const known = [...this.#givenHashes, ...own].filter(([, hash]) => hash !== undefined);
    return Object.fromEntries(known) as PromptHashes;
  }

  /** For the next run; `requiresConfirmation` marks all that waits as queued in a reset run. */
  carry(requiresConfirmation: boolean): CarriedFollowUps {
    const mark = requiresConfirmation && { requiresConfirmation };
    const queue = this.#queue.map((followUp) => ({ ...followUp, ...mark }));
    const given = { givenIds: [...this.#givenIds], givenHashes: Object.fromEntries(this.#givenHashes) };
    return { list: this.#list(), queue, ...given };
  }

  #list(): Entry[] {
    return [...this.#entries.values(), ...this.#overflows.values()];
  }
}

function shownError(error: string): string {
  return cutToBytes(error.replace(/\p{Cc}+/gu, ' '), LIMIT.followUpErrorBytes);
}

/** As JSON. */
function sizeOf(texts: string[]): number {
  return texts.reduce((total, text) => total + jsonBytes(text), 0);
}
