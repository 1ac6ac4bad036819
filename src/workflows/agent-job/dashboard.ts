/** What operators see: search attributes, memo and current details, written on change only. */
import { defineSearchAttributeKey, SearchAttributeType, type SearchAttributeUpdatePair } from '@temporalio/common';
import { setCurrentDetails, upsertMemo, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { attributeType, LIMIT, MEMO, SEARCH_ATTRIBUTE, SHOWN_WAITING_FOR, shownStatus } from '../../contract.js';
import { hasEntries, isSameMetadata } from '../../agent-job/labels.js';
import { currentDetails } from './details.js';
import type { JobRun } from './job-run.js';
import { outcomeOf, waitingNow } from './job-state.js';

type Attribute = keyof typeof SEARCH_ATTRIBUTE;
const ATTRIBUTES = Object.keys(SEARCH_ATTRIBUTE) as Attribute[];
type Value = string | readonly string[] | undefined;

export class Dashboard {
  readonly #run: JobRun;
  readonly #inputHash: string;
  readonly #attributes: Partial<Record<Attribute, Value>> = {};
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
    const changed = ATTRIBUTES.filter((name) => !isSame(wanted[name], this.#attributes[name]));
    // A send lasts seconds: that nothing is waited for meanwhile is worth no event of its own.
    const isNews = this.#run.isSending ? changed.some((name) => name !== 'waitingFor') : changed.length > 0;
    if (!isNews) return;
    upsertSearchAttributes(
      changed.map((name) => ({ key: keyOf(name), value: wanted[name] ?? null }) as SearchAttributeUpdatePair),
    );
    for (const name of changed) this.#attributes[name] = wanted[name];
  }

  #refreshMemo(): void {
    const { jobId, phase, polls, spec } = this.#run;
    const { job } = polls.known;
    // Before there is more to tell than the hash, it can be computed from the start event just as well.
    if (jobId === null && phase !== 'done' && phase !== 'needsAttention') return;
    const wanted = { [MEMO.jobId]: jobId, [MEMO.prLink]: job?.prLink ?? null, [MEMO.inputHash]: this.#inputHash };
    const changed: Record<string, unknown> = Object.fromEntries(
      Object.entries(wanted).filter(([name, value]) => value !== (this.#memo[name] ?? null)),
    );
    // Without metadata a field of that name is another's.
    const { metadata } = spec;
    const isTold = !hasEntries(metadata) || isSameMetadata(metadata, this.#memo[MEMO.metadata]);
    if (!isTold) changed[MEMO.metadata] = metadata;
    if (!hasEntries(changed)) return;
    upsertMemo(changed);
    Object.assign(this.#memo, wanted, changed);
  }
}

function keyOf(name: Attribute) {
  const attribute = SEARCH_ATTRIBUTE[name];
  const isList = attributeType(attribute) === 'KeywordList';
  return defineSearchAttributeKey(attribute, isList ? SearchAttributeType.KEYWORD_LIST : SearchAttributeType.KEYWORD);
}

function isSame(value: Value, other: Value): boolean {
  return JSON.stringify(value) === JSON.stringify(other);
}

function attributesOf(run: JobRun): Record<Attribute, Value> {
  const { spec, phase, polls, jobId } = run;
  const { job } = polls.known;
  const prLink = job?.prLink ?? undefined;
  return {
    project: spec.projectId,
    phase,
    status: job ? shownStatus(job.status) : undefined,
    prLink: prLink !== undefined && isIndexable(prLink) ? prLink : undefined,
    waitingFor: SHOWN_WAITING_FOR.find((what) => what === waitingNow(run)?.for),
    batch: spec.batch ?? undefined,
    tags: spec.tags.length > 0 ? spec.tags : undefined,
    outcome: outcomeOf(run) ?? undefined,
    jobId: jobId !== null && isIndexable(jobId) ? jobId : undefined,
  };
}

/** Visibility on SQL refuses half characters and NUL, and cuts nothing. */
function isIndexable(text: string): boolean {
  return text.length <= LIMIT.prLinkAttributeChars && text.isWellFormed() && !/\p{Cc}/u.test(text);
}
