import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clientOf, http, RawUpstream } from './raw-upstream.js';

/** What one write meets. */
interface Fate {
  promptBytes: number;
  /** The connection is reset once about this share of the request was read, where that is before its end. */
  resetAt: number;
  /** What follows a whole request. */
  thenDoes: 'answer' | 'reset' | 'nothing';
  /** Answered in the middle of the request. */
  earlyStatus: 503 | 429 | 400 | null;
  timeoutMs: number;
  /** How many requests may be finished. */
  maySend: number;
  /** How long it takes to be allowed to finish, and whether that fails. */
  askMs: number;
  isRefused: boolean;
}

const fates: fc.Arbitrary<Fate> = fc.record({
  promptBytes: fc.oneof(fc.nat(300), fc.nat(400_000)),
  resetAt: fc.oneof(fc.double({ min: 0, max: 1.1, noNaN: true }), fc.constant(2)),
  thenDoes: fc.constantFrom('answer', 'reset', 'nothing'),
  earlyStatus: fc.option(fc.constantFrom(503, 429, 400), { nil: null, freq: 5 }),
  timeoutMs: fc.oneof(fc.integer({ min: 5, max: 60 }), fc.constant(400)),
  maySend: fc.constantFrom(0, 1, 1, 1),
  askMs: fc.constantFrom(0, 0, 15, 80),
  isRefused: fc.constantFrom(false, false, false, true),
});

async function meet(fate: Fate): Promise<{ ending: string; wholeRequests: number }> {
  const total = fate.promptBytes + 220; // The head, about.
  let wholeRequests = 0;
  const raw = await RawUpstream.onConnection((socket) => {
    let read = 0;
    let text = '';
    socket.on('data', (chunk) => {
      read += chunk.length;
      text += chunk.toString('latin1');
      if (text.endsWith('"}')) {
        wholeRequests += 1;
        if (fate.thenDoes === 'answer') socket.write(http(201));
        if (fate.thenDoes === 'reset') socket.resetAndDestroy();
      } else if (read >= fate.resetAt * total) socket.resetAndDestroy();
      else if (fate.earlyStatus && read >= total / 2) socket.write(http(fate.earlyStatus, ''));
    });
    if (fate.resetAt === 0) socket.resetAndDestroy();
    else socket.resume();
  });
  const client = clientOf(raw.url, { timeoutMs: fate.timeoutMs });
  let asked = 0;
  const write = client.createJob(
    { projectId: 'p', prompt: 'p'.repeat(fate.promptBytes) },
    {
      beforeLastByte: async () => {
        await new Promise((resolve) => setTimeout(resolve, fate.askMs));
        if (fate.isRefused) throw new Error('refused');
        return () => (asked += 1) <= fate.maySend;
      },
    },
  );
  const ending = await write.then(
    ({ kind }) => kind,
    (error: Error) => error.message,
  );
  // What may still be on its way gets the time to arrive.
  await new Promise((resolve) => setTimeout(resolve, 30));
  await client.close();
  await raw.close();
  return { ending, wholeRequests };
}

/** A write that meets nothing, but for what a test adds. */
const PLAIN: Fate = {
  ...{ promptBytes: 100, resetAt: 2, thenDoes: 'answer', earlyStatus: null },
  ...{ timeoutMs: 20_000, maySend: 1, askMs: 0, isRefused: false },
};

test.each([
  ['answered', {}, { ending: 'accepted', wholeRequests: 1 }],
  ['reset once it is whole', { thenDoes: 'reset' }, { ending: 'inDoubt', wholeRequests: 1 }],
  ['reset before that', { resetAt: 0 }, { ending: 'notDelivered', wholeRequests: 0 }],
] as const)('a write that is %s', async (_, fate, met) => {
  expect(await meet({ ...PLAIN, ...fate })).toEqual(met);
});

test('no write that is called not sent ever arrives whole, wherever it is interrupted', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fates, { minLength: 8, maxLength: 8 }), async (batch) => {
      for (const { ending, wholeRequests } of await Promise.all(batch.map(meet))) {
        expect(wholeRequests).toBeLessThanOrEqual(ending === 'notDelivered' || ending === 'refused' ? 0 : 1);
        expect(wholeRequests).toBeGreaterThanOrEqual(ending === 'accepted' ? 1 : 0);
      }
    }),
    { numRuns: 25, endOnFailure: true },
  );
});
