import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ListenAddress } from '../config.js';
import type { ReadyState } from './readiness.js';

/** Serves `/healthz` (200) and `/readyz` (200, or 503 with a reason); rejects where it can't listen. */
export async function startHealthServer(address: ListenAddress, readyState: () => ReadyState): Promise<void> {
  const server = createServer((request, response) => respond(request, response, readyState));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`HEALTH_ADDRESS cannot be used: ${error.message}`)));
    server.listen(address.port, address.host, resolve);
  });
}

function respond(request: IncomingMessage, response: ServerResponse, readyState: () => ReadyState): void {
  request.resume();
  if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, { error: 'only GET and HEAD' });
  const path = request.url?.split('?', 1)[0];
  if (path === '/healthz') return send(response, 200, { alive: true });
  if (path !== '/readyz') return send(response, 404, { error: 'not found' });
  const state = readyState();
  send(response, state.ready ? 200 : 503, state);
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(`${JSON.stringify(body)}\n`);
}
