import type { Dispatcher } from 'undici';
import { exchangeErrorOf, type ExchangeResult, type ExchangePhase, type ExchangeError } from './exchange.js';

export interface ReaderOptions {
  /** The response's body is cut off, and the exchange with it, beyond this many bytes. */
  maxBytes: number;
  /** Called once, before the caller learns of the result: whoever holds the connection keeps or closes it. */
  onEnd: (error: ExchangeError | null) => void;
  /** Called once a connection stands, right before the first byte. */
  onConnected: () => void;
}

/** Collects what becomes of one request; ends exactly once, and from then on lets nothing more happen on the wire. */
export class ResponseReader implements Dispatcher.DispatchHandler {
  readonly result: Promise<ExchangeResult>;
  /** Set by whoever writes the request, before its last byte is handed over. */
  requestIsWhole = false;
  #status: number | undefined;
  #times: Pick<ExchangeResult, 'retryAfter' | 'date'> = { retryAfter: null, date: null };
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isConnected = false;
  #isOver = false;
  #controller: Dispatcher.DispatchController | undefined;
  #resolve!: (ending: ExchangeResult) => void;
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.result = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** How far the exchange has come. */
  get phase(): ExchangePhase {
    if (!this.#isConnected) return 'connecting';
    if (this.#status !== undefined) return 'receiving';
    return this.requestIsWhole ? 'waiting' : 'sending';
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the upstream answered, but not with 2xx: there is no point in sending the rest of the request. */
  get isRejected(): boolean {
    return this.#status !== undefined && (this.#status < 200 || this.#status > 299);
  }

  /** Ends the exchange, and its connection, as it stands; does nothing once it is over. */
  end(error: ExchangeError | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onEnd(error); // First: undici would only close the connection.
    if (error) this.#controller?.abort(new Error(error.kind));
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    const { requestIsWhole } = this;
    this.#resolve({ status: this.#status, ...this.#times, body, error, requestIsWhole });
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
    if (Number(headers['content-length']) > this.#options.maxBytes) this.#endOversized();
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#isOver) return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#options.maxBytes) return this.#endOversized();
    this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.end(null);
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    this.end(exchangeErrorOf(error, this.#isConnected));
  }

  #endOversized(): void {
    this.end({ kind: 'malformed', reason: `answer is over ${this.#options.maxBytes / 1024} KiB` });
  }
}

function textOf(header: unknown): string | null {
  return typeof header === 'string' ? header : null;
}
