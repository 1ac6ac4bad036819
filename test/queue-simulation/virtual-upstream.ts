/**
 * The sandbox upstream in the server's virtual time: real sockets, one door for each worker. A door asks for the time
 * before it lets a request in, and holds the time still until the worker has told the server what came of a write.
 */
import { once } from 'node:events';
import {
  Agent,
  createServer,
  request as send,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseRoute } from '../../src/sandbox/http.js';
import type { RateLimits } from '../../src/sandbox/access.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import type { VirtualTime } from './virtual-time.js';

/** One request as the upstream answered it; `at` is virtual, in milliseconds. */
export interface SeenRequest {
  at: number;
  operation: string;
  projectId: string;
  /** Which job: the prompt of a write, the job's id of a read. */
  what: string;
  status: number;
}

export interface VirtualUpstreamOptions {
  time: VirtualTime;
  limits: RateLimits;
}

/** After a write's answer, its worker tells the Temporal server, and then the queue; both within this time. */
const TELLS_WITHIN_MS = 150;

export class VirtualUpstream {
  readonly sandbox: Sandbox;
  readonly seen: SeenRequest[] = [];
  /** Called with each write that was accepted, before its answer leaves; false keeps the answer back for ever. */
  onAccepted: (door: number, write: SeenRequest) => boolean = () => true;
  readonly #time: VirtualTime;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #doors: Server[] = [];

  private constructor(sandbox: Sandbox, time: VirtualTime) {
    this.sandbox = sandbox;
    this.#time = time;
  }

  static async start({ time, limits }: VirtualUpstreamOptions): Promise<VirtualUpstream> {
    // A job ends soon, so that it is read once.
    const script = { activeMs: 1_000 };
    const sandbox = await startSandbox({ clock: () => time.latest, script, rateLimits: limits, keptRequests: 0 });
    return new VirtualUpstream(sandbox, time);
  }

  /** Opens a door of its own for one worker; returns its number and address. */
  async openDoor(): Promise<{ door: number; url: string }> {
    const door = this.#doors.length;
    const server = createServer((request, response) => {
      this.#pass(door, request, response).catch(() => response.destroy());
    });
    this.#doors.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { door, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  async close(): Promise<void> {
    for (const server of this.#doors) {
      server.closeAllConnections();
      server.close();
    }
    this.#agent.destroy();
    await this.sandbox.close();
  }

  async #pass(door: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const isWrite = request.method === 'POST';
    const release = isWrite ? await this.#time.hold() : () => {};
    try {
      const body = await bytesOf(request);
      const at = await this.#time.now();
      const answer = await this.#forward(request, body);
      const write = { at, ...described(request, body), status: answer.status };
      this.seen.push(write);
      if (isWrite && answer.status < 300 && !this.onAccepted(door, write)) return;
      response.writeHead(answer.status, answer.headers).end(answer.body);
    } finally {
      setTimeout(release, TELLS_WITHIN_MS);
    }
  }

  async #forward({ method, url, headers }: IncomingMessage, body: Buffer) {
    const { host: _, 'transfer-encoding': __, ...kept } = headers;
    const options = { agent: this.#agent, method, headers: { ...kept, 'content-length': body.length } };
    const forwarded = send(`${this.sandbox.url}${url}`, options).end(body);
    const [answer] = (await once(forwarded, 'response')) as [IncomingMessage];
    const { connection: ___, 'keep-alive': ____, ...answered } = answer.headers;
    return { status: answer.statusCode ?? 0, headers: answered, body: await bytesOf(answer) };
  }
}

function described({ method = '', url = '' }: IncomingMessage, body: Buffer) {
  const route = parseRoute(method, url);
  if (route.kind !== 'operation') throw new Error(`${method} ${url} is no request of the upstream's interface`);
  const { operation, projectId, jobId = '' } = route as { operation: string; projectId: string; jobId?: string };
  const { prompt = jobId } = (body.length > 0 ? JSON.parse(body.toString()) : {}) as { prompt?: string };
  return { operation, projectId, what: prompt };
}

async function bytesOf(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
