/** Starts the stand-in for the upstream: a real HTTP server with scripted jobs, made-up visitors and faults. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type ApiKey, ApiKeys, RateLimiter, type RateLimits, SANDBOX_API_KEY } from './access.js';
import { CONTROL_PATH, controlCommands, controlInProcess, handleControl, type SandboxControl } from './control.js';
import { Faults } from './faults.js';
import { handleRequest, type SandboxParts } from './handler.js';
import { errorResponse, parseRoute, sendResponse } from './http.js';
import type { JobScript } from './job-life.js';
import { Jobs } from './jobs.js';
import { RequestLog } from './request-log.js';
import { Visitors, type VisitorSettings } from './visitors.js';

export interface SandboxOptions {
  /** Default 0: any free port. */
  port?: number;
  /** Default 127.0.0.1. The control has no key of its own: bind to loopback or to a network you trust. */
  host?: string;
  /** The accepted key or keys; default `SANDBOX_API_KEY`. */
  apiKey?: string | ApiKey[];
  /** An append-only JSON Lines file: jobs and messages outlive the process, however it ends. */
  dataFile?: string;
  /** The script of jobs that no script rule matches. */
  script?: JobScript;
  /** Off unless set. */
  rateLimits?: RateLimits;
  visitors?: VisitorSettings;
  /** The time in milliseconds since 1970; default: the system's. */
  clock?: () => number;
  /** How many of the last requests `requests()` returns; default 1000. */
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

export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { apiKey = SANDBOX_API_KEY, clock: now = Date.now, host = '127.0.0.1' } = options;
  const accepted = typeof apiKey === 'string' ? [apiKey] : apiKey;
  const sockets = new Set<Socket>();
  const parts: SandboxParts = {
    now,
    faults: new Faults(),
    jobs: new Jobs({ now, script: options.script ?? {}, journal: options.dataFile }),
    visitors: new Visitors(options.visitors ?? {}),
    keys: new ApiKeys(accepted),
    limiter: new RateLimiter(options.rateLimits ?? {}),
    requestLog: new RequestLog(options.keptRequests ?? 1_000),
    openConnections: () => sockets.size,
    log: options.log ?? (() => {}),
  };
  const commands = controlCommands(parts);
  const server = createServer((request, serverResponse) => {
    serverResponse.on('error', () => {});
    const handled = request.url?.startsWith(CONTROL_PATH)
      ? handleControl(commands, request, serverResponse)
      : handleRequest(parts, parseRoute(request), request, serverResponse);
    handled.catch((error: unknown) => fail(serverResponse, error));
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    if (parts.faults.pick('connect')) socket.resetAndDestroy();
  });
  server.listen(options.port ?? 0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.resetAndDestroy();
    await closed;
  };
  let stopping: Promise<void> | undefined;
  const first = accepted[0] ?? '';
  return {
    ...controlInProcess(commands),
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    apiKey: typeof first === 'string' ? first : first.key,
    close: () => (stopping ??= stop()),
  };
}

/** Reports a failure of the sandbox itself, such as a full disk, as a 500 instead of ending the process. */
function fail(serverResponse: ServerResponse, error: unknown): void {
  if (serverResponse.headersSent) serverResponse.destroy();
  else sendResponse(serverResponse, errorResponse(undefined, 500, `Sandbox failed: ${String(error)}`));
}
