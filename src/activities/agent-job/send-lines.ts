/**
 * Lines of this worker's writes: of each project and kind a few are sent at a time, first in, first out. So a burst of
 * which nobody knows whether the upstream takes it meets few answers 429.
 */
type Leave = (width: number) => void;
type Admit = (leave: Leave | null) => void;

interface Line {
  sending: number;
  waiting: Admit[];
}

export class SendLines {
  /** A line without anybody is not kept. */
  readonly #lines = new Map<string, Line>();
  readonly #closed: AbortSignal;

  /** @param closed Ends the wait of all, and nobody waits from then on. */
  constructor(closed: AbortSignal) {
    this.#closed = closed;
    const endAll = () =>
      [...this.#lines.values()].forEach(({ waiting }) => waiting.splice(0).forEach((admit) => admit(null)));
    closed.addEventListener('abort', endAll, { once: true });
  }

  /** Whether others wait. */
  isBusy(name: string): boolean {
    return (this.#lines.get(name)?.waiting.length ?? 0) > 0;
  }

  /**
   * Resolves where fewer than `width` are being sent, with what must be called after the send, with the width by then;
   * with null where it took too long, or the lines were closed.
   */
  enter(name: string, { forMs, width }: { forMs: number; width: number }): Promise<Leave | null> {
    const line = this.#lines.get(name) ?? { sending: 0, waiting: [] };
    this.#lines.set(name, line);
    if (line.sending < width && line.waiting.length === 0) return Promise.resolve(this.#begin(name, line));
    if (this.#closed.aborted) return Promise.resolve(null);
    return new Promise((resolve) => {
      const admit: Admit = (leave) => {
        clearTimeout(timer);
        resolve(leave);
      };
      const timer = setTimeout(() => {
        line.waiting.splice(line.waiting.indexOf(admit), 1);
        resolve(null);
      }, forMs);
      line.waiting.push(admit);
    });
  }

  #begin(name: string, line: Line): Leave {
    line.sending += 1;
    return (width) => this.#leave(name, line, width);
  }

  #leave(name: string, line: Line, width: number): void {
    line.sending -= 1;
    while (line.sending < width && line.waiting.length > 0) line.waiting.shift()!(this.#begin(name, line));
    if (line.sending === 0) this.#lines.delete(name);
  }
}
