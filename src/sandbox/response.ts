import type { Operation } from './route.js';

/** A whole HTTP answer, not yet sent. */
export interface Answer {
  status: number;
  /** JSON text. */
  body: string;
  headers?: Record<string, string>;
}

export function jsonAnswer(status: number, value: unknown, headers?: Record<string, string>): Answer {
  return headers ? { status, body: JSON.stringify(value), headers } : { status, body: JSON.stringify(value) };
}

/** An error in the form of its operation: analytics errors carry `details`, agent errors do not. */
export function errorAnswer(
  operation: Operation | undefined,
  status: number,
  error: string,
  options: { details?: string[]; headers?: Record<string, string> } = {},
): Answer {
  const details = (options.details ?? [error]).map((message) => ({ message }));
  return jsonAnswer(status, operation === 'visitors' ? { error, details } : { error }, options.headers);
}
