import { expect, test } from 'vitest';
import { contextIn, TRACE_HEADER, traceIdOf } from '../../src/contract/trace-context.js';

const [TRACE, SPAN] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
const PARENT = `00-${TRACE}-${SPAN}-01`;

const read = (context: object) => contextIn({ [TRACE_HEADER]: { data: Buffer.from(JSON.stringify(context)) } });

test('a context is read as W3C Trace Context says', () => {
  expect(read({ traceparent: PARENT })).toEqual({ traceparent: PARENT });
  expect(read({ traceparent: PARENT, tracestate: 'a=1', baggage: 'b=2' })).toEqual({
    traceparent: PARENT,
    tracestate: 'a=1',
  });
  expect(traceIdOf({ traceparent: PARENT })).toBe(TRACE);
});

test.each([
  '',
  PARENT.toUpperCase(),
  ` ${PARENT}`,
  `${PARENT}\n`,
  `${PARENT}-later`,
  `ff-${TRACE}-${SPAN}-01`,
  `00-${TRACE.slice(1)}-${SPAN}-01`,
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  7,
  null,
  [PARENT],
])('%j is no traceparent', (traceparent) => {
  expect(read({ traceparent })).toBeNull();
});

test.each(['x'.repeat(513), 'a=\u00e9', 'a=1\nb=2', 7, null])('a strange tracestate is left out: %j', (tracestate) => {
  expect(read({ traceparent: PARENT, tracestate })).toEqual({ traceparent: PARENT });
});

test.each([
  undefined,
  {},
  { data: null },
  { data: new Uint8Array() },
  { data: Buffer.from('null') },
  { data: Buffer.from('{"traceparent":') },
  { data: Buffer.from([0xff, 0xfe]) },
  { data: Buffer.from(JSON.stringify({ traceparent: PARENT, tracestate: 'x'.repeat(9_000) })) },
])('a header that holds no context is none (%#)', (header) => {
  expect(contextIn({ [TRACE_HEADER]: header })).toBeNull();
});
