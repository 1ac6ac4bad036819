import { request as httpRequest } from 'node:http';
import type { Agent, IncomingHttpHeaders } from 'node:http';
import { afterEach } from 'vitest';
import type { Sandbox, SandboxOptions } from '../../src/testing.js';
import { startSandbox } from '../../src/testing.js';

const running: Sandbox[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((sandbox) => sandbox.close()));
});

/** A sandbox that is closed after the test. */
export async function sandboxForTest(options?: SandboxOptions): Promise<Sandbox> {
  const sandbox = await startSandbox(options);
  running.push(sandbox);
  return sandbox;
}

interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into any answer
  json: any;
}

export interface CallOptions {
  key?: string;
  headers?: Record<string, string>;
  agent?: Agent;
  /** Sent as it is instead of JSON. */
  rawBody?: string;
  /** The declared length, if it should differ. */
  timeoutMs?: number;
}

/** One request on a raw path, with nothing normalised; a connection of its own unless an agent is given. */
export function call(
  sandbox: Sandbox,
  method: string,
  path: string,
  body?: unknown,
  options: CallOptions = {},
): Promise<Reply> {
  const text = options.rawBody ?? (body === undefined ? undefined : JSON.stringify(body));
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      host: '127.0.0.1',
      port: sandbox.port,
      method,
      path,
      agent: options.agent ?? false,
      signal: AbortSignal.timeout(options.timeoutMs ?? 30_000),
      headers: {
        authorization: `Bearer ${options.key ?? sandbox.apiKey}`,
        ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
        ...options.headers,
      },
    });
    request.on('error', reject).on('response', (response) => {
      let answer = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (answer += chunk));
      response.on('error', reject);
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text: answer, json: parse(answer) });
      });
    });
    request.end(text);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const createJob = (sandbox: Sandbox, prompt = 'Add a page', options?: CallOptions) =>
  call(sandbox, 'POST', '/v2/agent/acme/job', { prompt }, options);

export const getJob = (sandbox: Sandbox, id: string, options?: CallOptions) =>
  call(sandbox, 'GET', `/v2/agent/acme/job/${id}`, undefined, options);

export const sendMessage = (sandbox: Sandbox, id: string, prompt = 'And a footer', options?: CallOptions) =>
  call(sandbox, 'POST', `/v2/agent/acme/job/${id}/message`, { prompt }, options);

export const getVisitors = (sandbox: Sandbox, query = '', projectId = 'acme', options?: CallOptions) =>
  call(sandbox, 'GET', `/v1/analytics/${projectId}/visitors${query}`, undefined, options);
