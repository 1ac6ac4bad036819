/** Payloads as the JSON of their protobuf message, which Temporal's codec protocol carries: bytes are base64. */
import type { PayloadCodec } from '@temporalio/common';

type Payload = Parameters<PayloadCodec['decode']>[0][number];

/** Bounds the work of one request; a page of the web UI has hundreds. */
const MAX_PAYLOADS = 10_000;
const BASE64 = /^[\w+/-]*={0,2}$/;

/** The body of a request is no list of payloads; the message says where, with nothing of it. */
class PayloadsError extends Error {
  override readonly name = 'PayloadsError';
}

/** The payloads of `{"payloads": […]}`. Throws PayloadsError. */
export function parsePayloads(text: string): Payload[] {
  const { payloads } = asObject(parseJson(text), 'the body');
  if (!Array.isArray(payloads)) throw new PayloadsError('the body has no field payloads: a list');
  if (payloads.length > MAX_PAYLOADS) throw new PayloadsError(`the body has more than ${MAX_PAYLOADS} payloads`);
  return payloads.map((payload: unknown, index) => toPayload(payload, `payloads[${index}]`));
}

/** The same form, of other payloads. */
export function payloadsText(payloads: readonly Payload[]): string {
  return JSON.stringify({
    payloads: payloads.map(({ metadata, data }) => ({
      metadata: Object.fromEntries(Object.entries(metadata ?? {}).map(([name, value]) => [name, toBase64(value)])),
      data: toBase64(data),
    })),
  });
}

/** The parser's own message would quote the text. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new PayloadsError('the body is not valid JSON');
  }
}

function toPayload(value: unknown, place: string): Payload {
  const { metadata, data, ...others } = asObject(value, place);
  // A part that nobody here knows would be lost; an empty one is none.
  if (Object.values(others).some(isFilled)) throw new PayloadsError(`${place} has more than metadata and data`);
  const entries = Object.entries(metadata == null ? {} : asObject(metadata, `${place}.metadata`));
  return {
    metadata: Object.fromEntries(
      entries.map(([name, bytes]) => [name, toBytes(bytes, `a value of ${place}.metadata`)]),
    ),
    data: toBytes(data ?? '', `${place}.data`),
  };
}

function isFilled(value: unknown): boolean {
  return value != null && value !== '' && !(Array.isArray(value) && value.length === 0);
}

function asObject(value: unknown, place: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new PayloadsError(`${place} is no JSON object`);
}

function toBytes(value: unknown, place: string): Buffer {
  if (typeof value === 'string' && BASE64.test(value)) return Buffer.from(value, 'base64');
  throw new PayloadsError(`${place} is no base64`);
}

function toBase64(bytes: Uint8Array | null | undefined): string {
  return Buffer.from(bytes ?? []).toString('base64');
}
