interface Saved {
  failures: number;
  notFound: number;
  further: number;
  unread: number;
  heartbeats: number;
}

/** What the attempts of one batch tell each other, by the details that a heartbeat or a failure leaves. */
export class PollProgress {
  /** Failed reads in a row. */
  failures: number;
  /** 404 in a row. */
  notFound: number;
  /** Heartbeats of the whole batch so far: each is a billable action. */
  heartbeats: number;
  readonly #attempt: number;
  /** Reads beyond the first of each attempt. */
  #further: number;
  /** Attempts that ended before they had read anything. */
  #unread: number;
  readonly #before: Saved;
  #readsHere = 0;

  constructor(
    input: { failures: number; notFound: { count: number } | null },
    { attempt, heartbeatDetails }: { attempt: number; heartbeatDetails: unknown },
  ) {
    const first = { failures: input.failures, notFound: input.notFound?.count ?? 0 };
    this.#before = numbersIn(heartbeatDetails, { ...first, further: 0, unread: 0, heartbeats: 0 });
    this.#attempt = attempt;
    this.failures = this.#before.failures;
    this.notFound = this.#before.notFound;
    this.heartbeats = this.#before.heartbeats;
    this.#further = this.#before.further;
    // An operator's reset counts the attempts anew, and leaves the details.
    this.#unread = Math.min(this.#before.unread, attempt - 1);
  }

  /** Polls of the whole batch so far. */
  get reads(): number {
    return this.#attempt - this.#unread + this.#further;
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

  /** What the next attempt needs to know; null where it is what this one was told. */
  get news(): Saved | null {
    const saved = this.saved;
    return JSON.stringify(saved) === JSON.stringify(this.#before) ? null : saved;
  }

  get saved(): Saved {
    const { failures, notFound, heartbeats } = this;
    return { failures, notFound, further: this.#further, unread: this.#unread, heartbeats };
  }
}

/** What the details tell of these figures. A lease tells people more, and another release may have saved others. */
function numbersIn(details: unknown, figures: Saved): Saved {
  const told: Partial<Saved> = typeof details === 'object' && details !== null ? details : {};
  const isTold = (name: keyof Saved) => Number.isFinite(told[name]) && told[name]! >= 0;
  const names = Object.keys(figures) as (keyof Saved)[];
  return { ...figures, ...Object.fromEntries(names.filter(isTold).map((name) => [name, told[name]])) };
}
