/** The sandbox's time: real time that can be moved forward, or a manual clock that stands still until it is moved. */
export class SandboxClock {
  private offsetMs = 0;
  private readonly frozenAt: number | undefined;

  constructor(options: { manual: boolean; startAt?: number | undefined }) {
    const startAt = options.startAt ?? Date.now();
    if (options.manual) this.frozenAt = startAt;
    else this.offsetMs = startAt - Date.now();
  }

  /** Milliseconds since 1970. */
  now(): number {
    return (this.frozenAt ?? Date.now()) + this.offsetMs;
  }

  advance(ms: number): void {
    this.offsetMs += ms;
  }
}
