/**
 * What the client says of itself: that it waits, tries again or goes on. What fails a call is its error, not logged. No
 * prompt is ever logged; `meta.workflowId` holds the job's key, and `meta.error` is what the client ran into.
 */

/** Takes what the client has to say; a method that throws harms no call. */
export interface Logger {
  /** What each call came to. */
  debug: LogMethod;
  /** What was troubled, and goes on. */
  info: LogMethod;
  /** What waits, or is tried again. */
  warn: LogMethod;
  /** Nothing yet: errors are thrown. */
  error: LogMethod;
}

type LogMethod = (message: string, meta: Record<string, unknown>) => void;

/** The caller's logger, or none: what it throws is its own affair. */
export function loggerOf(given: Logger | null | undefined): Logger {
  const method = (level: keyof Logger): LogMethod => {
    return (message, meta) => {
      // A full disk must not fail a start, nor end the process where the method is asynchronous.
      const tell = async () => given?.[level](message, meta);
      void tell().catch(() => {});
    };
  };
  return { debug: method('debug'), info: method('info'), warn: method('warn'), error: method('error') };
}
