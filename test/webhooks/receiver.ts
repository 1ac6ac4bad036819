/** A receiver of webhooks over real sockets, with scripted answers, which keeps what it was sent. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll } from 'vitest';
import { newFolder } from '../support/folder.js';

export const SECRET = `whsec_${Buffer.from('a secret of twenty-four b').toString('base64')}`;

interface Received {
  path: string;
  headers: Record<string, string>;
  body: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- what a test reads of it, it compares
  event: any;
}

type Answer = number | ((response: ServerResponse) => void);

/** One for the tests of a file. */
export function useReceiver(): Receiver {
  const receiver = new Receiver();
  beforeAll(() => receiver.start());
  afterAll(() => receiver.close());
  return receiver;
}

export class Receiver {
  readonly received: Received[] = [];
  /** For the next requests, in order; then `otherwise`. */
  readonly answers: Answer[] = [];
  otherwise: Answer = 204;
  readonly #server = createServer((request, response) => {
    void text(request).then((body) => {
      const headers = request.headers as Record<string, string>;
      this.received.push({ path: request.url!, headers, body, event: JSON.parse(body) });
      const answer = this.answers.shift() ?? this.otherwise;
      if (typeof answer === 'number') response.writeHead(answer).end();
      else answer(response);
    });
  });
  #folder = '';

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#folder = newFolder();
    await this.configure({ '*': [{ url: this.url, secrets: [SECRET] }] });
    return this;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}/hooks?token=of-the-address`;
  }

  get file(): string {
    return join(this.#folder, 'webhooks.json');
  }

  configure(content: unknown): Promise<void> {
    return writeFile(this.file, JSON.stringify(content));
  }

  /** The body of each event that it was sent, once. */
  events(type: string): Received['event'][] {
    const ofType = this.received.filter(({ event }) => event.type === type);
    return [...new Map(ofType.map(({ headers, event }) => [headers['webhook-id'], event])).values()];
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
