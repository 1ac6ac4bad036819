/** What the attempts of one poll batch tell each other, by the details that a heartbeat or a failure leaves. */

interface Saved {
  /** Failed reads in a row. */
  failures: number;
  /** 404 in a row. */
  notFound: number;
  /** Reads beyond the first of each attempt. */
  further: number;
  /** Attempts that ended before they had read anything. */
  unread: number;
}

export class PollProgress {
  readonly saved: Saved;
  readonly #before: string;
  readonly #attempt: number;
  #readsHere = 0;

  constructor(
    input: { failures: number; notFound: { count: number } | null },
    { attempt, heartbeatDetails }: { attempt: number; heartbeatDetails: unknown },
  ) {
    const first = { failures: input.failures, notFound: input.notFound?.count ?? 0 };
    const before = numbersIn(heartbeatDetails, { ...first, further: 0, unread: 0 });
    this.#before = JSON.stringify(before);
    this.#attempt = attempt;
    // An operator's reset counts the attempts anew, and leaves the details.
    this.saved = { ...before, unread: Math.min(before.unread, attempt - 1) };
  }

  /** Polls of the whole batch so far. */
  get reads(): number {
    return this.#attempt - this.saved.unread + this.saved.further;
  }

  add(response: 'record' | 'notFound' | 'failed'): void {
    const { saved } = this;
    this.#readsHere += 1;
    if (this.#readsHere > 1) saved.further += 1;
    saved.failures = response === 'record' ? 0 : saved.failures + 1;
    saved.notFound = response === 'notFound' ? saved.notFound + 1 : 0;
  }

  /** This attempt ends before its next read. */
  skip(): void {
    if (this.#readsHere === 0) this.saved.unread += 1;
  }

  /** Whether the next attempt needs to know more than this one was told. */
  get hasNews(): boolean {
    return JSON.stringify(this.saved) !== this.#before;
  }
}

/** What the details tell of these figures. A lease tells people more, and another release may have saved others. */
function numbersIn(details: unknown, figures: Saved): Saved {
  const told: Partial<Saved> = typeof details === 'object' && details !== null ? details : {};
  const isTold = (name: keyof Saved) => Number.isFinite(told[name]) && told[name]! >= 0;
  const names = Object.keys(figures) as (keyof Saved)[];
  return { ...figures, ...Object.fromEntries(names.filter(isTold).map((name) => [name, told[name]])) };
}
