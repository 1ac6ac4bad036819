/** What operators see: search attributes, memo and current details, written on change only. */
import { defineSearchAttributeKey, type SearchAttributeUpdatePair } from '@temporalio/common';
import { setCurrentDetails, upsertMemo, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { LIMIT, MEMO, SEARCH_ATTRIBUTE, shownStatus } from '../../contract.js';
import { currentDetails } from './details.js';
import type { JobRun } from './job-run.js';

type Attribute = keyof typeof SEARCH_ATTRIBUTE;
const ATTRIBUTES = Object.keys(SEARCH_ATTRIBUTE) as Attribute[];

export class Dashboard {
  readonly #run: JobRun;
  readonly #inputHash: string;
  readonly #attributes: Partial<Record<Attribute, string | undefined>> = {};
  readonly #memo: Record<string, unknown>;

  constructor(run: JobRun, inputHash: string) {
    this.#run = run;
    this.#inputHash = inputHash;
    const { typedSearchAttributes, memo } = workflowInfo();
    for (const name of ATTRIBUTES) this.#attributes[name] = typedSearchAttributes.get(keyOf(name));
    this.#memo = { ...memo };
  }

  /** Brings all of it up to date. */
  refresh(): void {
    this.refreshDetails();
    this.#refreshAttributes();
    this.#refreshMemo();
  }

  /** The current details alone: they cost no event. */
  refreshDetails(): void {
    setCurrentDetails(currentDetails(this.#run));
  }

  /** The memo as it is now: continue-as-new would drop it. */
  get memo(): Record<string, unknown> {
    return { ...this.#memo };
  }

  #refreshAttributes(): void {
    const wanted = attributesOf(this.#run);
    const changed = ATTRIBUTES.filter((name) => wanted[name] !== this.#attributes[name]);
    if (changed.length === 0) return;
    upsertSearchAttributes(
      changed.map((name) => ({ key: keyOf(name), value: wanted[name] ?? null }) as SearchAttributeUpdatePair),
    );
    Object.assign(this.#attributes, wanted);
  }

  #refreshMemo(): void {
    const { jobId, phase, polls } = this.#run;
    const { job } = polls.known;
    // Before there is more to tell than the hash, it can be computed from the start event just as well.
    if (jobId === null && phase !== 'done' && phase !== 'needsAttention') return;
    const wanted = { [MEMO.jobId]: jobId, [MEMO.prLink]: job?.prLink ?? null, [MEMO.inputHash]: this.#inputHash };
    const changed = Object.entries(wanted).filter(([name, value]) => value !== (this.#memo[name] ?? null));
    if (changed.length === 0) return;
    upsertMemo(Object.fromEntries(changed));
    Object.assign(this.#memo, wanted);
  }
}

function keyOf(name: Attribute) {
  return defineSearchAttributeKey(SEARCH_ATTRIBUTE[name], 'KEYWORD');
}

function attributesOf({ spec, phase, polls }: JobRun): Record<Attribute, string | undefined> {
  const { job } = polls.known;
  const prLink = job?.prLink ?? undefined;
  return {
    project: spec.projectId,
    phase,
    status: job ? shownStatus(job.status) : undefined,
    prLink: prLink !== undefined && isIndexable(prLink) ? prLink : undefined,
    waitingFor: undefined,
    batch: spec.batch ?? undefined,
  };
}

/** Visibility on SQL refuses half characters and NUL, and cuts nothing. */
function isIndexable(text: string): boolean {
  return text.length <= LIMIT.prLinkAttributeChars && text.isWellFormed() && !/\p{Cc}/u.test(text);
}
