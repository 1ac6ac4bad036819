/** What a call answers, or the name, code and field of what it throws: to compare the fake with the real client. */
export async function told(call: () => unknown): Promise<unknown> {
  try {
    return (await call()) ?? null;
  } catch (error) {
    const { name, code, field, retryable } = error as Record<string, unknown>;
    return { name, code, retryable, ...(field !== undefined && { field }) };
  }
}

/** Given up already; ends a call with an error of the name `Enough`. */
export function givenUp(): AbortSignal {
  return AbortSignal.abort(Object.assign(new Error('enough'), { name: 'Enough' }));
}
