import type { Dispatcher } from 'undici';
import { troubleOf, type Ending, type Phase, type Trouble } from './exchange.js';

export interface ReaderOptions {
  /** The answer's body is cut off, and the exchange with it, beyond this many bytes. */
  mostBytes: number;
  /** Called once, before the caller learns of the ending: whoever holds the connection keeps or closes it. */
  onEnd: (trouble: Trouble | null) => void;
  /** Called once a connection stands, right before the first byte. */
  onConnected: () => void;
}

/** Collects what becomes of one request; ends exactly once, and from then on lets nothing more happen on the wire. */
export class AnswerReader implements Dispatcher.DispatchHandler {
  readonly ended: Promise<Ending>;
  /** Set by whoever writes the request, before its last byte is handed over. */
  requestIsWhole = false;
  #status: number | undefined;
  #times: Pick<Ending, 'retryAfter' | 'date'> = { retryAfter: null, date: null };
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isConnected = false;
  #isOver = false;
  #controller: Dispatcher.DispatchController | undefined;
  #resolve!: (ending: Ending) => void;
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** How far the exchange has come. */
  get phase(): Phase {
    if (!this.#isConnected) return 'connecting';
    if (this.#status !== undefined) return 'answering';
    return this.requestIsWhole ? 'waiting' : 'sending';
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the upstream answered, but not with 2xx: there is no point in sending the rest of the request. */
  get isRefused(): boolean {
    return this.#status !== undefined && (this.#status < 200 || this.#status > 299);
  }

  /** Ends the exchange, and its connection, as it stands; does nothing once it is over. */
  end(trouble: Trouble | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onEnd(trouble); // First: undici would only close the connection.
    if (trouble) this.#controller?.abort(new Error(trouble.kind));
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    const { requestIsWhole } = this;
    this.#resolve({ status: this.#status, ...this.#times, body, trouble, requestIsWhole });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // The queue may begin again what it believes unsent; a request is begun once.
    if (this.#isOver || this.#isConnected) return controller.abort(new Error('over'));
    this.#isConnected = true;
    this.#controller = controller;
    this.#options.onConnected();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>): void {
    if (status < 200) return;
    this.#status = status;
    this.#times = { retryAfter: textOf(headers['retry-after']), date: textOf(headers['date']) };
    if (Number(headers['content-length']) > this.#options.mostBytes) this.#endOversized();
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#isOver) return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#options.mostBytes) return this.#endOversized();
    this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.end(null);
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    this.end(troubleOf(error, this.#isConnected));
  }

  #endOversized(): void {
    this.end({ kind: 'malformed', reason: `answer is over ${this.#options.mostBytes / 1024} KiB` });
  }
}

function textOf(header: unknown): string | null {
  return typeof header === 'string' ? header : null;
}
