import { activityInfo, Context } from '@temporalio/activity';

interface Saved {
  failures: number;
  notFound: number;
  further: number;
  unread: number;
}

/** What the attempts of one batch tell each other, by the details of a heartbeat. */
export class PollProgress {
  /** Failed reads in a row. */
  failures: number;
  /** 404 in a row. */
  notFound: number;
  /** Reads beyond the first of each attempt. */
  #further: number;
  /** Attempts that ended before they had read anything. */
  #unread: number;
  readonly #before: Saved;
  #readsHere = 0;

  constructor(input: { failures: number; notFound: { count: number } | null }) {
    const first = { failures: input.failures, notFound: input.notFound?.count ?? 0, further: 0, unread: 0 };
    this.#before = { ...first, ...numbersIn(activityInfo().heartbeatDetails) };
    this.failures = this.#before.failures;
    this.notFound = this.#before.notFound;
    this.#further = this.#before.further;
    this.#unread = this.#before.unread;
  }

  /** Polls of the whole batch so far. */
  get reads(): number {
    return activityInfo().attempt - this.#unread + this.#further;
  }

  add(response: 'record' | 'notFound' | 'failed'): void {
    this.#readsHere += 1;
    if (this.#readsHere > 1) this.#further += 1;
    this.failures = response === 'record' ? 0 : this.failures + 1;
    this.notFound = response === 'notFound' ? this.notFound + 1 : 0;
  }

  /** This attempt ends before its next read. */
  skip(): void {
    if (this.#readsHere === 0) this.#unread += 1;
  }

  /** A heartbeat costs an action: only where there is something to remember. */
  save(): void {
    const { failures, notFound } = this;
    const saved: Saved = { failures, notFound, further: this.#further, unread: this.#unread };
    if (JSON.stringify(saved) !== JSON.stringify(this.#before)) Context.current().heartbeat(saved);
  }
}

/** Another release may have saved something else. */
function numbersIn(details: unknown): Partial<Saved> {
  if (typeof details !== 'object' || details === null) return {};
  return Object.fromEntries(Object.entries(details).filter(([, value]) => Number.isFinite(value)));
}
