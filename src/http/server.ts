/** The HTTP server: who may ask for what, the limits of what is open, and an end that cuts off no answer. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { AGENT_JOB_WORKFLOW, agentJobOf } from '../contract.js';
import { readDescription } from '../client/agent-job/run-record.js';
import { JobNotFoundError } from '../client/errors.js';
import { temporalCall } from '../client/temporal-call.js';
import type { AgentJobs } from '../starter.js';
import { ANYBODY, type Caller, type CallerKeys, checkMaySee, checkMayWrite } from './keys.js';
import { Line } from './line.js';
import { CallerLimits, type Limits, LIMITS } from './limits.js';
import { openApi } from './openapi.js';
import { admitOrigin, checkIsLocal } from './origins.js';
import { pageAnswers } from './page.js';
import { Problem, problemOf, PROBLEM_TYPE, RpcProblem } from './problem.js';
import { type Answer, type Call, headerOf, readBody, readQuery } from './request.js';
import { ENDS_IN_SLASH, MCP_ROUTE, NOWHERE, readAddress, type Route, ROUTES } from './routes.js';
import { networkOf, Strangers } from './strangers.js';
import { type Reader, Unread } from './unread.js';

interface HttpService extends Readonly<Call['service']> {
  /** Throws while Temporal is away: each request tries again. */
  readonly connect: () => Promise<AgentJobs>;
  /** Null: no caller needs a key, and the server must listen on this machine alone. */
  readonly keys: CallerKeys | null;
  readonly limits?: Partial<Limits> | undefined;
  /** How long a connection may stay without a request; default 75 seconds. */
  readonly keepAliveMs?: number | undefined;
  /** Whether `/` is a page for people; default true. */
  readonly hasPage?: boolean | undefined;
}

/** The limit of all callers together. A stream is one. */
const MAX_CONNECTIONS = 5_000;
const KEEP_ALIVE_MS = 75_000;
/** A slower request is answered 408. A request without a host is declined here, because Node's answer has no body. */
const OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
  requireHostHeader: false,
} as const;
/** What a request without a wait may take once the end was asked for. */
const DRAIN_MS = 20_000;
const READY_LIMIT_MS = 4_000;
/** A caller whose request was declined may read why, and is cut off then. */
const LAST_WORD_MS = 1_000;
const BROKEN: Readonly<Record<string, number>> = { ERR_HTTP_REQUEST_TIMEOUT: 408, HPE_HEADER_OVERFLOW: 431 };

type Exchange = Pick<Call, 'request' | 'response' | 'gone' | 'stream' | 'turn'>;

/** A request without its whole answer. */
interface OpenRequest extends Reader {
  countedAs: string;
  isStream: boolean;
  route: Route | null;
  /** Whether it came to the address for probes alone. */
  readonly isProbe: boolean;
}

/** A server that listens. */
export class HttpServer {
  readonly #service: HttpService;
  readonly #server: Server;
  #probes: Server | null = null;
  readonly #limits: CallerLimits;
  readonly #line = new Line();
  readonly #strangers: Strangers;
  readonly #unread: Unread;
  /** Counts of answers, by their labels as Prometheus has them: no project, key or job is named. */
  readonly #answers = new Map<string, number>();
  readonly #ending = new AbortController();
  /** The one request of each connection. */
  readonly #open = new Map<Socket, OpenRequest>();
  /** What needs no key. */
  readonly #openPaths = new Map<string, () => Answer | Promise<Answer>>([
    ['/healthz', () => ({ status: 200, body: { alive: true } })],
    ['/readyz', () => this.#readiness()],
    ['/metrics', () => ({ status: 200, body: this.#metrics() })],
    [
      '/openapi.json',
      () => ({
        status: 200,
        body: (this.#openApi ??= bytesOf(openApi(this.#service.version, this.#service.publicUrl))),
      }),
    ],
  ]);
  readonly #page: ReadonlyMap<string, Answer>;
  /** One for all its readers. */
  #openApi: Buffer | null = null;

  private constructor(service: HttpService) {
    this.#service = service;
    this.#page = service.hasPage === false ? new Map() : pageAnswers(service.keys !== null);
    const limits = { ...LIMITS, ...service.limits };
    this.#limits = new CallerLimits(limits);
    this.#strangers = new Strangers(limits);
    this.#unread = new Unread(limits);
    const server = createServer({ ...OPTIONS, keepAliveTimeout: service.keepAliveMs ?? KEEP_ALIVE_MS });
    server.maxConnections = MAX_CONNECTIONS;
    server.on('connection', (socket: Socket) => this.#strangers.add(socket));
    server.maxHeadersCount = 0; // Node would hide the headers after the first 2,000
    // An expected body is asked for when it is read: after the key was checked.
    for (const event of ['request', 'checkContinue', 'checkExpectation']) {
      server.on(event, (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response));
    }
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => this.#declineBroken(error, socket));
    this.#server = server;
  }

  /** Listens; throws if it can't. */
  static async listen(service: HttpService, { host, port }: { host: string; port: number }): Promise<HttpServer> {
    const http = new HttpServer(service);
    await once(http.#server.listen(port, host), 'listening');
    return http;
  }

  /** Listens at a second address, for `/healthz` and the like alone, without limits; throws if it can't. */
  async listenForProbes({ host, port }: { host: string; port: number }): Promise<string> {
    this.#probes = createServer(OPTIONS, (request, response) => void this.#serve(request, response, true));
    await once(this.#probes.listen(port, host), 'listening');
    return urlOf(this.#probes);
  }

  get url(): string {
    return urlOf(this.#server);
  }

  /** Takes no new connection, ends streams and waits with a hint to come back, and lets the rest finish. */
  async end(): Promise<void> {
    this.#ending.abort();
    const closed = once(this.#server, 'close');
    this.#server.close();
    const timer = setTimeout(() => this.#server.closeAllConnections(), DRAIN_MS);
    await closed;
    clearTimeout(timer);
    this.#probes?.close().closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse, isProbe = false): Promise<void> {
    const { socket } = request;
    // A second request before the answer to the first would wait here, with its memory. The client repeats it alone.
    if (this.#open.has(socket)) return void socket.destroy();
    const gone = new AbortController();
    const { signal } = gone;
    const open = { response, route: null, isProbe, countedAs: addressOf(request), isStream: false, gone: signal };
    this.#open.set(socket, open);
    this.#strangers.heard(socket);
    response.on('error', () => {});
    response.on('close', () => {
      this.#count(open);
      this.#open.delete(socket);
      gone.abort();
    });
    // Until its key is known, a caller keeps no connection: idle ones would take the place of others.
    if (this.#service.keys !== null) response.setHeader('connection', 'close');
    try {
      const stream = (bytes: Buffer) => this.#unread.stream(open, bytes);
      const turn = () => this.#line.turn(open.countedAs, 'begun');
      const answer = await this.#answer({ request, response, gone: signal, stream, turn }, open);
      if (answer !== null) await this.#send(open, answer);
      else await this.#unread.end(open);
    } catch (error) {
      // What is left of a body must not stand before the next request.
      request.resume();
      if (!signal.aborted) await this.#sendError(open, error);
    }
  }

  async #answer(exchange: Exchange, open: OpenRequest): Promise<Answer | null> {
    const { request, response } = exchange;
    const { host, expect } = request.headers;
    headerOf(request, 'host');
    if (host === undefined && request.httpVersion === '1.1') throw new Problem(400, 'no header host');
    if (!/^(100-continue)?$/i.test(expect ?? '')) throw new Problem(417, 'the header expect may be 100-continue alone');
    const { method, path, search } = targetOf(request);
    const openAnswer = this.#openPaths.get(path);
    const page = open.isProbe ? undefined : this.#page.get(path);
    if (openAnswer ?? page) {
      checkMethod(method, ['GET']);
      if (!open.isProbe) this.#limits.countRequest(addressOf(request));
      return page ?? openAnswer!();
    }
    const service = this.#service;
    const isTools = path === MCP_ROUTE.path && !open.isProbe;
    const preflight = isTools ? admitOrigin(request, response, service.allowedOrigins) : null;
    if (preflight) {
      this.#limits.countRequest(addressOf(request));
      return preflight;
    }
    const { route, parts } = findRoute(open.isProbe ? [] : ALL_ROUTES, method, path);
    open.route = route;
    open.isStream = route.path.endsWith('/events');
    const caller = await this.#callerOf(request);
    this.#strangers.forget(request.socket);
    open.countedAs = caller.id ?? open.countedAs;
    const { projectId, workflowId } = route === MCP_ROUTE ? NOWHERE : readAddress(parts);
    if (route !== MCP_ROUTE) checkMaySee(caller, projectId);
    if (route !== MCP_ROUTE) checkMayWrite(caller, { method, response });
    await this.#line.turn(open.countedAs, 'fresh');
    exchange.gone.throwIfAborted();
    const query = readQuery(search, route.query);
    // The caller may keep the connection.
    response.removeHeader('connection');
    const source = { ...exchange, limits: this.#limits, countedAs: open.countedAs };
    const decline = (error: unknown) => Promise.reject(isTools ? RpcProblem.of(error) : error);
    const args = route.body ? await readBody(source, route.body).catch(decline) : query;
    const jobs = await service.connect();
    if (workflowId !== null) await checkIsJob(jobs, workflowId);
    const job = () => jobs.handle(workflowId ?? '');
    const ending = this.#ending.signal;
    const answer = await route.handle({ ...exchange, service, jobs, caller, projectId, job, args, ending });
    if (answer !== null) await exchange.turn();
    return answer;
  }

  /** Who asks; throws problems 400, 401, 403 and 429. */
  async #callerOf(request: IncomingMessage): Promise<Caller> {
    const authorization = headerOf(request, 'authorization');
    const { keys } = this.#service;
    const address = addressOf(request);
    if (keys === null) {
      checkIsLocal(request);
      this.#limits.countRequest(address);
      return ANYBODY;
    }
    const caller = await keys.callerOf(authorization).catch((error: unknown) => {
      this.#limits.countRequest(`no key, ${address}`);
      throw error;
    });
    this.#limits.countRequest(caller.id!);
    this.#limits.countConnection(caller.id!, request.socket);
    return caller;
  }

  #count({ response, route }: OpenRequest): void {
    const { method, path } = route ?? { method: 'none', path: 'none' };
    const labels = `method="${method}",route="${path}",status="${response.statusCode}"`;
    this.#answers.set(labels, (this.#answers.get(labels) ?? 0) + 1);
  }

  #metrics(): string {
    const answers = [...this.#answers].map(([labels, count]) => `{${labels}} ${count}`);
    const streams = [...this.#open.values()].filter(({ isStream }) => isStream).length;
    return [
      ...exposed('requests_total', 'counter', 'Requests, by route and status of the answer', answers),
      ...exposed('open_requests', 'gauge', 'Requests without their whole answer', [` ${this.#open.size}`]),
      ...exposed('open_streams', 'gauge', 'Streams of events that are open', [` ${streams}`]),
      ...exposed('unread_bytes', 'gauge', 'Bytes that readers have not taken', [` ${this.#unread.bytes}`]),
      '',
    ].join('\n');
  }

  async #readiness(): Promise<Answer> {
    if (this.#ending.signal.aborted) return { status: 503, body: { ready: false, reason: 'shuts down' } };
    try {
      const { client } = await this.#service.connect();
      const reach = () => client.workflowService.describeNamespace({ namespace: client.options.namespace });
      await temporalCall(client, { timeoutMs: READY_LIMIT_MS }, reach);
      return { status: 200, body: { ready: true } };
    } catch {
      return { status: 503, body: { ready: false, reason: 'Temporal does not answer' } };
    }
  }

  async #send(open: OpenRequest, { status, body, headers }: Answer): Promise<void> {
    const { response } = open;
    const bytes = bytesOf(body);
    const type = { 'content-type': typeof body === 'string' ? 'text/plain; version=0.0.4' : 'application/json' };
    const always = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
    // A connection that stays open would keep this server from its end.
    if (this.#ending.signal.aborted) response.setHeader('connection', 'close');
    const described = body !== undefined && { ...type, 'content-length': String(bytes.length) };
    await this.#unread.answer(open, bytes, () => {
      response.writeHead(status, { ...described, ...always, ...headers });
    });
  }

  async #sendError(open: OpenRequest, error: unknown): Promise<void> {
    const { status, body, headers } = problemOf(error, this.#service.onProblem);
    if (open.response.headersSent) return void open.response.destroy();
    const answer = { status, body, headers: { 'content-type': PROBLEM_TYPE, ...headers } };
    await this.#send(open, answer).catch((full: unknown) => this.#sendError(open, full));
  }

  /** What is no HTTP, or comes too slowly, is declined after the answer to the request before. */
  #declineBroken({ code = '' }: NodeJS.ErrnoException, socket: Socket): void {
    const { response } = this.#open.get(socket) ?? {};
    if (code === 'ECONNRESET' || !socket.writable) socket.destroy();
    else if (response?.req.complete) {
      // What comes behind is read once the answer is sent.
      socket.pause();
      response.once('close', () => closeSoon(socket));
    } else if (response?.headersSent) socket.destroy();
    else decline(socket, new Problem(BROKEN[code] ?? 400, 'no request of HTTP/1.1, or it came too slowly'));
  }
}

function bytesOf(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  if (body === undefined) return Buffer.alloc(0);
  return Buffer.from(typeof body === 'string' ? body : `${JSON.stringify(body)}\n`);
}

/** One metric in Prometheus' format of text; a sample has its labels, if any, and its value. */
function exposed(name: string, type: 'counter' | 'gauge', help: string, samples: readonly string[]): string[] {
  const full = `agent_jobs_http_${name}`;
  return [`# HELP ${full} ${help}`, `# TYPE ${full} ${type}`, ...samples.map((sample) => full + sample)];
}

function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

function addressOf({ socket }: IncomingMessage): string {
  return networkOf(socket.remoteAddress ?? '');
}

/** Throws a problem 400. */
function targetOf({ method = '', url = '' }: IncomingMessage): { method: string; path: string; search: string } {
  if (!url.startsWith('/')) throw new Problem(400, 'the target must be a path: this is no proxy');
  const [, given = '', search = ''] = /^([^?]*)\??(.*)$/s.exec(url) ?? [];
  const path = given.startsWith('/v1/') ? given : given.replace(/\/$/, '');
  // Node leaves the body of an answer to HEAD out by itself.
  return { method: method === 'HEAD' ? 'GET' : method, path, search };
}

const ALL_ROUTES: readonly Route[] = [...ROUTES, MCP_ROUTE];

/** Throws problems 404 and 405. */
function findRoute(
  routes: readonly Route[],
  method: string,
  path: string,
): { route: Route; parts: Record<string, string> } {
  const found = routes.flatMap((route) => {
    const match = route.pattern.exec(path);
    return match ? [{ route, parts: match.groups ?? {} }] : [];
  });
  const isSlash = path.endsWith('/');
  if (found.length === 0) throw new Problem(404, `no such path; ${isSlash ? ENDS_IN_SLASH : '/openapi.json has all'}`);
  const methods = found.map(({ route }) => route.method);
  checkMethod(method, methods);
  return found.find(({ route }) => route.method === method)!;
}

function checkMethod(method: string, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  const allow = allowed.join(', ').replace('GET', 'GET, HEAD');
  throw new Problem(405, `this path takes ${allow}`, { headers: { allow } });
}

/** An id that another client made up may be of any workflow: only jobs are reached here. */
async function checkIsJob({ client }: AgentJobs, workflowId: string): Promise<void> {
  if (agentJobOf(workflowId) !== null) return;
  const { type } = await temporalCall(client, {}, () => readDescription(client, workflowId));
  if (type !== AGENT_JOB_WORKFLOW) throw new JobNotFoundError(workflowId, 'no such job');
}

function decline(socket: Socket, { status, body }: Problem): void {
  const text = `${JSON.stringify(body)}\n`;
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, `content-type: ${PROBLEM_TYPE}`, 'connection: close'];
  closeSoon(socket, [...head, `content-length: ${Buffer.byteLength(text)}`, '', text].join('\r\n'));
}

/** Sends the last bytes, and leaves the other end a moment to read them. */
function closeSoon(socket: Socket, lastWord = ''): void {
  socket.resume();
  setTimeout(() => socket.destroy(), LAST_WORD_MS).unref();
  socket.end(lastWord);
}
