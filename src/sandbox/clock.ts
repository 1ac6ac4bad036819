/** `real` time flows, `manual` time stands still; a function tells the time of a simulation. All can be moved forward. */
export type ClockSource = 'real' | 'manual' | (() => number);

/** The sandbox's time. */
export class SandboxClock {
  private offsetMs = 0;
  private readonly source: () => number;

  constructor(source: ClockSource, startAt?: number) {
    const frozenAt = Date.now();
    if (typeof source === 'function') this.source = source;
    else this.source = source === 'manual' ? () => frozenAt : Date.now;
    if (startAt !== undefined) this.offsetMs = startAt - this.source();
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.source() + this.offsetMs;
  }

  advance(ms: number): void {
    this.offsetMs += ms;
  }
}
