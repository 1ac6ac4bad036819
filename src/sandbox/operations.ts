import * as z from 'zod';
import { errorResponse, jsonResponse, type HttpResponse } from './http.js';
import type { ApiKeys } from './api-keys.js';
import type { SandboxClock } from './clock.js';
import type { Jobs } from './jobs.js';
import type { RateLimiter } from './rate-limit.js';
import type { Route } from './route.js';
import type { Visitors } from './visitors.js';

/** A whole request of one of the four operations. */
interface OperationRequest {
  route: Extract<Route, { kind: 'operation' }>;
  authorization: string | undefined;
  contentType: string | undefined;
  body: Buffer;
}

const promptSchema = z.object({ prompt: z.string().min(1) });

/** The prompt of a body, or undefined where it has none. */
export function readPrompt(body: Buffer): string | undefined {
  try {
    return promptSchema.safeParse(JSON.parse(body.toString('utf8'))).data?.prompt;
  } catch {
    return undefined;
  }
}

interface OperationsParts {
  clock: SandboxClock;
  jobs: Jobs;
  visitors: Visitors;
  keys: ApiKeys;
  limiter: RateLimiter;
}

/** What the upstream does and how it responds, without faults. */
export class Operations {
  readonly #parts: OperationsParts;

  constructor(parts: OperationsParts) {
    this.#parts = parts;
  }

  /** Applies a request and returns its response, in one synchronous step. */
  handle({ route, authorization, contentType, body }: OperationRequest): HttpResponse {
    const { clock, keys, limiter, visitors } = this.#parts;
    const { operation, projectId } = route;
    const refusal = keys.refuse(authorization, operation, projectId, clock.now());
    if (refusal) return refusal;
    const headers = limiter.refuse(operation, projectId, clock.now());
    if (headers) return errorResponse(operation, 429, 'Rate limit exceeded', { headers });
    if (route.operation === 'visitors') return visitors.page(projectId, route.query);
    if (route.operation === 'get') return this.#get(projectId, route.jobId);
    if (!contentType?.startsWith('application/json')) {
      return errorResponse(operation, 400, 'Content-Type must be application/json');
    }
    const prompt = readPrompt(body);
    if (prompt === undefined) return errorResponse(operation, 400, 'prompt must be a text that is not empty');
    return route.operation === 'create'
      ? this.#create(projectId, prompt)
      : this.#message(projectId, route.jobId, prompt);
  }

  #create(projectId: string, prompt: string): HttpResponse {
    return jsonResponse(201, this.#parts.jobs.create(projectId, prompt));
  }

  #get(projectId: string, jobId: string): HttpResponse {
    return found('get', this.#parts.jobs.get(projectId, jobId));
  }

  #message(projectId: string, jobId: string, prompt: string): HttpResponse {
    return found('message', this.#parts.jobs.message(projectId, jobId, prompt));
  }
}

function found(operation: 'get' | 'message', record: object | undefined): HttpResponse {
  return record ? jsonResponse(200, record) : errorResponse(operation, 404, 'Agent job not found');
}
