/** All that an error tells: a gRPC code and its details often say what its class and message do not. */
export interface ErrorFacts {
  name: string;
  message: string;
  code?: unknown;
  details?: unknown;
  stack?: string | undefined;
}

/** The error, then its causes. */
export function factsOf(error: unknown): ErrorFacts[] {
  const chain: ErrorFacts[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { name, message, stack } = cause;
    const { code, details } = cause as { code?: unknown; details?: unknown };
    chain.push({
      name,
      message,
      ...(code === undefined ? {} : { code }),
      ...(details === undefined ? {} : { details }),
      stack,
    });
  }
  return chain.length > 0 ? chain : [{ name: typeof error, message: String(error) }];
}
