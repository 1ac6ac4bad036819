/**
 * Decides which trace context of a caller is handed on (https://www.w3.org/TR/trace-context/). Temporal's OpenTelemetry
 * interceptors of every language send it in one header, as a JSON object.
 */

/** The header of Temporal's interceptors; its value is a TraceContext. */
export const TRACE_HEADER = '_tracer-data';

/** The trace and the span that a job belongs to. */
export interface TraceContext {
  traceparent: string;
  tracestate?: string;
}

/** Version 00, the only one there is. No id may be of zeros alone. */
const TRACEPARENT = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;
/** The standard asks to hand on at least 512 characters. */
const MAX_TRACESTATE = 512;
/** A longer header does not come from Temporal's interceptors. */
const MAX_HEADER_BYTES = 8_192;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** The context among the headers of a call; null if there is none, or one that can't be read. */
export function contextIn(headers: Record<string, { data?: Uint8Array | null } | undefined>): TraceContext | null {
  const data = headers[TRACE_HEADER]?.data;
  if (!data || data.length > MAX_HEADER_BYTES) return null;
  try {
    return readTraceContext(JSON.parse(new TextDecoder().decode(data)));
  } catch {
    // Encrypted, or no JSON: a header must not fail its call.
    return null;
  }
}

function readTraceContext(value: unknown): TraceContext | null {
  const { traceparent, tracestate } = (value ?? {}) as Partial<Record<keyof TraceContext, unknown>>;
  if (typeof traceparent !== 'string' || !TRACEPARENT.test(traceparent)) return null;
  return isState(tracestate) ? { traceparent, tracestate } : { traceparent };
}

function isState(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TRACESTATE && PRINTABLE.test(value);
}

/** The trace's id: 32 hexadecimal digits. */
export function traceIdOf({ traceparent }: TraceContext): string {
  return traceparent.slice(3, 35);
}
