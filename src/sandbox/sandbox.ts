import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorResponse, parseRoute, sendResponse } from './http.js';
import { ApiKeys, RateLimiter, SANDBOX_API_KEY, type ApiKey, type RateLimits } from './access.js';
import { Connections, RequestLog } from './request-log.js';
import { SandboxClock, type ClockSource } from './clock.js';
import { controlCommands, type ControlOptions, handleControl, SandboxControl, sendInProcess } from './control.js';
import { Faults } from './armed-faults.js';
import { RequestHandler, type SandboxParts } from './handler.js';
import type { JobScript } from './job-life.js';
import { Jobs } from './jobs.js';
import type { VisitorSettings } from './visitor-rows.js';
import { Visitors } from './visitors.js';

export interface SandboxOptions {
  /** Default 0: any free port. */
  port?: number;
  /** Default 127.0.0.1. The control has no key of its own: bind to loopback or to a network you trust. */
  host?: string;
  /** Host names with a dot under which the control is served, such as `sandbox.ci.internal`; the others always are. */
  allowedHosts?: readonly string[];
  /** The accepted key or keys; default `SANDBOX_API_KEY`. */
  apiKey?: string | ApiKey[];
  /** An append-only JSON Lines file: jobs and messages outlive the process, however it ends. */
  dataFile?: string;
  /** The script of jobs that no script rule matches. */
  script?: JobScript;
  /** Off unless set. */
  rateLimits?: RateLimits;
  visitors?: VisitorSettings;
  /** Default `real`. */
  clock?: ClockSource;
  /** Where the clock starts, in milliseconds since 1970; default: now. */
  startAt?: number;
  /** How long an idle connection stays open; default 5000. */
  keepAliveTimeoutMs?: number;
  /** Whether responses announce that time in a `Keep-Alive` header; default true. */
  announceKeepAlive?: boolean;
  /** Size of the request log that `requests()` reads; default 1000. */
  keptRequests?: number;
  /** Receives one line per request: method, path, response. */
  log?: (line: string) => void;
}

/** A running sandbox upstream with its control. */
export interface Sandbox extends SandboxControl {
  /** Base URL, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** The first accepted key. */
  readonly apiKey: string;
  /** Stops the server and resets all connections, those of hanging requests included; closing twice is harmless. */
  close(): Promise<void>;
}

/** Starts a stand-in for the upstream: a real HTTP server with scripted jobs, made-up visitors and faults on demand. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const keys = typeof options.apiKey === 'string' ? [options.apiKey] : (options.apiKey ?? [SANDBOX_API_KEY]);
  const server = createServer();
  server.keepAliveTimeout = options.keepAliveTimeoutMs ?? 5_000;
  // Newer versions of node keep connections a second longer than they announce, where this is not set.
  Object.assign(server, { keepAliveTimeoutBuffer: 0 });
  const parts = buildParts(options, keys, server);
  const host = options.host ?? '127.0.0.1';
  server.listen(options.port ?? 0, host);
  await once(server, 'listening').catch((error: unknown) => {
    parts.jobs.close();
    throw error;
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  parts.redirectTarget.url = `${url}/__sandbox/redirect-target`;
  const commands = controlCommands(parts);
  serve(server, parts, { commands, allowedHosts: options.allowedHosts ?? [] }, options.announceKeepAlive ?? true);
  const stop = async () => {
    const closed = once(server, 'close');
    server.close();
    parts.connections.resetAll();
    await closed;
    parts.jobs.close();
  };
  let stopping: Promise<void> | undefined;
  const close = () => (stopping ??= stop());
  const first = keys[0];
  const apiKey = typeof first === 'object' ? first.key : (first ?? SANDBOX_API_KEY);
  return Object.assign(new SandboxControl(sendInProcess(commands)), { url, port, apiKey, close });
}

function buildParts(options: SandboxOptions, accepted: ApiKey[], server: Server): SandboxParts {
  const clock = new SandboxClock(options.clock ?? 'real', options.startAt);
  const faults = new Faults();
  return {
    clock,
    faults,
    jobs: new Jobs({ clock, script: options.script ?? {}, dataFile: options.dataFile }),
    visitors: new Visitors(clock, options.visitors ?? {}),
    keys: new ApiKeys(accepted),
    limiter: new RateLimiter(options.rateLimits ?? {}),
    requestLog: new RequestLog(options.keptRequests ?? 1_000),
    connections: new Connections(server, faults),
    redirectTarget: { url: '', visits: 0 },
    closeIdleConnections: () => server.closeIdleConnections(),
    log: options.log ?? (() => {}),
  };
}

function serve(server: Server, parts: SandboxParts, control: ControlOptions, announceKeepAlive: boolean): void {
  const handler = new RequestHandler(parts);
  const { redirectTarget } = parts;
  server.on('request', (request: IncomingMessage, serverResponse: ServerResponse) => {
    // With a Connection header of ours node adds no Keep-Alive header.
    if (!announceKeepAlive) serverResponse.setHeader('connection', 'keep-alive');
    serverResponse.on('error', () => {});
    const failed = (error: unknown) => fail(serverResponse, error);
    const route = parseRoute(request.method ?? '', request.url ?? '');
    if (route.kind === 'operation') handler.handle(route, request, serverResponse).catch(failed);
    else if (route.kind === 'control') {
      handleControl(control, route.command, request, serverResponse).catch(failed);
    } else if (route.kind === 'redirectTarget') {
      redirectTarget.visits++;
      request.resume();
      sendResponse(serverResponse, { status: 200, body: '{"id":"redirect-target","status":"completed"}' });
    } else handler.unknown(request, serverResponse);
  });
}

/** Reports a failure of the sandbox itself, such as a full disk, as a 500 instead of ending the process. */
function fail(serverResponse: ServerResponse, error: unknown): void {
  if (serverResponse.headersSent) serverResponse.destroy();
  else sendResponse(serverResponse, errorResponse(undefined, 500, `Sandbox failed: ${String(error)}`));
}
