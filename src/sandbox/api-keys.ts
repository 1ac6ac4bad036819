import * as z from 'zod';
import { errorResponse, type HttpResponse } from './http.js';
import type { Operation } from './route.js';

/** The key that a sandbox accepts by default; valid nowhere else. */
export const SANDBOX_API_KEY = 'sandbox_admin_not_a_secret';

export const apiKeySchema = z.union([
  z.string().min(1),
  z.strictObject({
    key: z.string().min(1),
    /** Default: both. */
    scopes: z.array(z.enum(['read', 'write'])).optional(),
    /** The only projects the key may touch; default: all. */
    projectIds: z.array(z.string()).optional(),
    /** Milliseconds since 1970 on the sandbox's clock. */
    expiresAt: z.number().optional(),
  }),
]);

/** A key that the sandbox accepts: the text alone, or with its limits. */
export type ApiKey = z.input<typeof apiKeySchema>;

/** Accepted keys: 401 for a wrong or expired one, 403 for a missing scope or a foreign project. */
export class ApiKeys {
  readonly #keys = new Map<string, Exclude<ApiKey, string>>();

  constructor(keys: ApiKey[]) {
    this.replace(keys);
  }

  replace(keys: ApiKey[]): void {
    this.#keys.clear();
    for (const key of keys) {
      const entry = typeof key === 'string' ? { key } : key;
      this.#keys.set(entry.key, entry);
    }
  }

  /** The refusal of a request, or undefined where it may pass. */
  refuse(
    authorization: string | undefined,
    operation: Operation,
    projectId: string,
    now: number,
  ): HttpResponse | undefined {
    const token = authorization?.startsWith('Bearer ') ? authorization.slice('Bearer '.length) : undefined;
    const key = token === undefined ? undefined : this.#keys.get(token);
    if (!key || (key.expiresAt !== undefined && key.expiresAt <= now)) {
      return errorResponse(operation, 401, 'Invalid or expired API key');
    }
    const scope = operation === 'create' || operation === 'message' ? 'write' : 'read';
    if (key.scopes && !key.scopes.includes(scope)) {
      return errorResponse(operation, 403, `API key lacks the ${scope} scope`);
    }
    if (key.projectIds && !key.projectIds.includes(projectId)) {
      return errorResponse(operation, 403, 'API key has no access to this project');
    }
    return undefined;
  }
}
