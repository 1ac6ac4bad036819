import net from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import tls from 'node:tls';
import { onTestFinished, vi } from 'vitest';
import { createUpstream, type UpstreamSettings } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { SELF_SIGNED } from './self-signed.js';

export const KEY = 'sk-test-0123456789abcdef';
export const JOB = { id: 'job-1', status: 'active' };
/** What a create answered with JOB returns, in part. */
export const CREATED = { kind: 'accepted', jobId: JOB.id, job: JOB };

/** What the upstream answers with, if it does; it may close the connection instead. */
export type Answer = (request: RawRequest, socket: net.Socket) => string | void;

export interface RawRequest {
  /** Which connection it came over, from 1. */
  connection: number;
  line: string;
  headers: Record<string, string>;
  body: string;
}

/** A TCP server that the test answers from by hand, and that remembers what arrived. */
export class RawUpstream {
  readonly requests: RawRequest[] = [];
  /** Bytes that arrived, over all connections. */
  bytesRead = 0;
  connections = 0;
  /** What arrived, over all connections. */
  text = '';
  readonly #sockets = new Set<net.Socket>();
  readonly #server: net.Server;

  private constructor(server: net.Server) {
    this.#server = server;
  }

  /** Every connection is handed over as it is. */
  static async onConnection(serve: (socket: net.Socket, upstream: RawUpstream) => void): Promise<RawUpstream> {
    const server = net.createServer({ pauseOnConnect: true });
    const upstream = new RawUpstream(server);
    server.on('connection', (socket) => {
      upstream.connections += 1;
      upstream.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => upstream.#sockets.delete(socket));
      serve(socket, upstream);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => upstream.close());
    return upstream;
  }

  /** Every whole request is handed over; the answer is a raw text, or whatever the test does to the socket. */
  static onRequest(answer: Answer): Promise<RawUpstream> {
    return RawUpstream.onConnection((socket, upstream) => {
      const connection = upstream.connections;
      let received: Buffer = Buffer.alloc(0);
      socket.on('data', (chunk) => {
        upstream.bytesRead += chunk.length;
        upstream.text += chunk.toString('latin1');
        received = Buffer.concat([received, chunk]);
        for (let parsed = parseRequest(received); parsed; parsed = parseRequest(received)) {
          received = parsed.rest;
          const request = { connection, ...parsed.request };
          upstream.requests.push(request);
          const text = answer(request, socket);
          if (text) socket.write(text);
        }
      });
      socket.resume();
    });
  }

  /** Answers each connection with a raw text as soon as the head is there, before the last byte of the request. */
  static answeringEarly(text: string): Promise<RawUpstream> {
    return RawUpstream.onConnection((socket) => {
      socket.once('data', () => void socket.write(text));
      socket.resume();
    });
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function parseRequest(bytes: Buffer): { request: Omit<RawRequest, 'connection'>; rest: Buffer } | null {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return null;
  const [line = '', ...fields] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const headers = Object.fromEntries(
    fields.map((field) => [
      field.slice(0, field.indexOf(':')).toLowerCase(),
      field.slice(field.indexOf(':') + 1).trim(),
    ]),
  );
  const bodyEnd = headEnd + 4 + Number(headers['content-length'] ?? 0);
  if (bytes.length < bodyEnd) return null;
  const body = bytes.toString('utf8', headEnd + 4, bodyEnd);
  return { request: { line, headers, body }, rest: bytes.subarray(bodyEnd) };
}

/** A whole HTTP answer with a JSON (or raw) body. */
export function http(status: number, body: unknown = JOB, headers: Record<string, string> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const fields = { 'content-length': String(Buffer.byteLength(text)), ...headers };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} X\r\n${lines.join('')}\r\n${text}`;
}

/** How gateways compress, by what they write into `Content-Encoding`. */
export const COMPRESSIONS: Record<string, (body: string) => Buffer> = {
  gzip: gzipSync,
  'X-GZIP': gzipSync,
  br: brotliCompressSync,
  deflate: deflateSync,
};

/** The same answer as of `http`, compressed. */
export function compressed(status: number, body: unknown, how = 'gzip', bytes?: Buffer): Buffer {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const content = bytes ?? COMPRESSIONS[how]!(text);
  const fields = { 'content-length': String(content.length), 'content-encoding': how };
  return Buffer.concat([Buffer.from(http(status, '', fields)), content]);
}

/** The client under test; it is closed at the end of the test. */
export function clientOf(
  baseUrl: string,
  settings: Partial<UpstreamSettings> = {},
): Upstream & { close(): Promise<void> } {
  const keys = createKeySource({ adminApiKey: KEY });
  const client = createUpstream({ baseUrl, keys, timeoutMs: 20_000, notTakenStatuses: [], ...settings });
  onTestFinished(() => client.close());
  return client;
}

/** An upstream that answers so, and a client of it, with the class of each response. */
export async function setUp(
  answer: Answer,
  settings: Partial<UpstreamSettings> = {},
): Promise<{ raw: RawUpstream; client: ReturnType<typeof clientOf>; classes: string[] }> {
  const raw = await RawUpstream.onRequest(answer);
  const classes: string[] = [];
  const onResponse = (operation: string, name: string) => void classes.push(`${operation} ${name}`);
  return { raw, client: clientOf(raw.url, { onResponse, ...settings }), classes };
}

/** What a promise was rejected with; fails if it was not. */
export async function rejectionOf(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error('was expected to reject');
}

/** A server whose connections are raw TCP sockets, with TLS on top if wanted, which clients then trust. */
export async function listen(isTls: boolean, serve: (socket: net.Socket, tcp: net.Socket) => void): Promise<string> {
  const open = new Set<net.Socket>();
  const server = net.createServer((tcp) => {
    open.add(tcp);
    tcp.on('error', () => {});
    const socket = isTls ? new tls.TLSSocket(tcp, { isServer: true, ...SELF_SIGNED }) : tcp;
    socket.on('error', () => {});
    serve(socket, tcp);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const tcp of open) tcp.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  if (isTls) vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
  return `${isTls ? 'https' : 'http'}://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

/** Waits until something holds; the test's own timeout is the limit. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}
