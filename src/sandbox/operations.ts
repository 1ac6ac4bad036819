import * as z from 'zod';
import type { Answer } from './response.js';
import { errorAnswer, jsonAnswer } from './response.js';
import type { ApiKeys } from './api-keys.js';
import type { SandboxClock } from './clock.js';
import type { Jobs } from './jobs.js';
import type { RateLimiter } from './rate-limit.js';
import type { Route } from './route.js';
import type { Visitors } from './visitors.js';

/** A whole request of one of the four operations. */
export interface OperationRequest {
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

/** What the upstream itself does and answers, faults aside. */
export class Operations {
  private readonly parts: { clock: SandboxClock; jobs: Jobs; visitors: Visitors; keys: ApiKeys; limiter: RateLimiter };

  constructor(parts: Operations['parts']) {
    this.parts = parts;
  }

  /** Carries a request out, effect included, in one synchronous step. */
  answer({ route, authorization, contentType, body }: OperationRequest): Answer {
    const { clock, keys, limiter, visitors } = this.parts;
    const { operation, projectId } = route;
    const refusal = keys.refuse(authorization, operation, projectId, clock.now());
    if (refusal) return refusal;
    const headers = limiter.refuse(operation, projectId, clock.now());
    if (headers) return errorAnswer(operation, 429, 'Rate limit exceeded', { headers });
    if (route.operation === 'visitors') return visitors.page(projectId, route.query);
    if (route.operation === 'get') return this.get(projectId, route.jobId);
    if (!contentType?.startsWith('application/json')) {
      return errorAnswer(operation, 400, 'Content-Type must be application/json');
    }
    const prompt = readPrompt(body);
    if (prompt === undefined) return errorAnswer(operation, 400, 'prompt must be a text that is not empty');
    return route.operation === 'create' ? this.create(projectId, prompt) : this.message(projectId, route.jobId, prompt);
  }

  private create(projectId: string, prompt: string): Answer {
    return jsonAnswer(201, this.parts.jobs.create(projectId, prompt));
  }

  private get(projectId: string, jobId: string): Answer {
    return found('get', this.parts.jobs.get(projectId, jobId));
  }

  private message(projectId: string, jobId: string, prompt: string): Answer {
    return found('message', this.parts.jobs.message(projectId, jobId, prompt));
  }
}

function found(operation: 'get' | 'message', record: object | undefined): Answer {
  return record ? jsonAnswer(200, record) : errorAnswer(operation, 404, 'Agent job not found');
}
