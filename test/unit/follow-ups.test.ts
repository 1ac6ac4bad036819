import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cutToBytes } from '../../src/contract/shared.js';
import { FollowUps, noFollowUps, type CarriedFollowUps } from '../../src/workflows/agent-job/follow-up-queue.js';

const empty = () => noFollowUps([]);
const add = (followUps: FollowUps, id: string, prompt = `do ${id}`) => {
  if (followUps.isUsed(id)) return;
  if (followUps.hasRoomFor(id, prompt)) followUps.add({ id, prompt, askedAt: 0 });
  else followUps.overflow(id);
};

const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('add' as const), id: fc.string({ minLength: 1, maxLength: 2 }) }),
    fc.record({ kind: fc.constantFrom('sent' as const, 'rejected' as const, 'unknown' as const) }),
    fc.record({ kind: fc.constant('continue' as const) }),
  ),
  { maxLength: 60 },
);

test('whatever happens, each id is sent at most once, in the order queued, and used ids are those that were', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string({ minLength: 1, maxLength: 2 }), { maxLength: 5 }), steps, (given, all) => {
      let followUps = new FollowUps({ ...empty(), givenIds: given });
      const queued: string[] = [];
      const settled: string[] = [];
      for (const step of all) {
        if (step.kind === 'add') {
          if (!followUps.isUsed(step.id)) queued.push(step.id);
          add(followUps, step.id);
        } else if (step.kind === 'continue') {
          followUps = new FollowUps(JSON.parse(JSON.stringify(followUps.carry(false))) as CarriedFollowUps);
        } else if (followUps.next) {
          settled.push(followUps.next.id);
          followUps.resolveNext(step.kind);
        }
      }
      expect(settled).toEqual(queued.slice(0, settled.length));
      expect(new Set(settled).size).toBe(settled.length);
      expect(settled.some((id) => given.includes(id))).toBe(false);
      expect(followUps.usedIds()).toEqual([...given, ...queued]);
      expect(followUps.statuses().map(({ id }) => id)).toEqual(queued);
      followUps.abandonQueued();
      expect(followUps.usedIds()).toEqual([...given, ...settled]);
      expect(followUps.isEmpty).toBe(true);
    }),
  );
});

test('the hashes of ids of earlier runs are handed on, and those of ids that none used are not', () => {
  const givenHashes = { x: '00000000', free: '00000000' };
  const followUps = new FollowUps(new FollowUps({ ...empty(), givenIds: ['x', 'y'], givenHashes }).carry(false));
  expect(followUps.promptHashes()).toEqual({ x: '00000000' });
  const isConflict = ['x', 'y', 'free'].map((id) => followUps.isConflict(id, 'do'));
  expect(isConflict).toEqual([true, false, false]);
});

test('at most 1,000 follow-ups are taken per job, those of earlier runs included', () => {
  const followUps = new FollowUps({ ...empty(), givenIds: ['x', 'y'] });
  for (let i = 0; i < 1_000; i++) add(followUps, `${i}`, 'p');
  expect(followUps.usedIds()).toHaveLength(1_000);
  expect(followUps.stateOf('997')).toBe('queued');
  expect(followUps.statuses().filter(({ state }) => state === 'abandoned')).toEqual([
    { id: '998', state: 'abandoned', error: 'queue full' },
    { id: '999', state: 'abandoned', error: 'queue full' },
  ]);
});

test('at most 1 MiB of prompts, as JSON, waits; room is free again when one is over', () => {
  const followUps = new FollowUps(empty());
  const prompt = '"'.repeat(262_143); // 524,288 bytes as JSON
  add(followUps, 'a', prompt);
  add(followUps, 'b', prompt);
  expect(followUps.hasRoomFor('c', 'x')).toBe(false);
  followUps.resolveNext('sent');
  expect(followUps.hasRoomFor('c', prompt)).toBe(true);
  expect(new FollowUps(followUps.carry(false)).hasRoomFor('c', `${prompt}x`)).toBe(false);
});

test('of signals that met a full queue the last 20 are listed, and their ids are free', () => {
  const followUps = new FollowUps(empty());
  for (let i = 0; i < 30; i++) followUps.overflow(`${i}`);
  expect(followUps.statuses().map(({ id }) => id)).toEqual(Array.from({ length: 20 }, (_, i) => `${i + 10}`));
  expect(followUps.usedIds()).toEqual([]);
  add(followUps, '29');
  expect(followUps.stateOf('29')).toBe('queued');
  expect(followUps.statuses().filter(({ id }) => id === '29')).toEqual([{ id: '29', state: 'queued' }]);
});

test('after a reset all that waits is marked', () => {
  const followUps = new FollowUps(empty());
  add(followUps, 'a');
  add(followUps, 'b');
  expect(followUps.carry(true).queue.every(({ requiresConfirmation }) => requiresConfirmation === true)).toBe(true);
  expect(followUps.carry(false).queue.some(({ requiresConfirmation }) => requiresConfirmation)).toBe(false);
});

test('a text is cut to bytes and never inside a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), fc.nat(300), (text, bytes) => {
      const cut = cutToBytes(text, bytes);
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
      expect(cut.isWellFormed()).toBe(true);
      expect(text.toWellFormed().startsWith(cut)).toBe(true);
    }),
  );
});

test('the error of a follow-up is at most 200 bytes, without control characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (error) => {
      const followUps = new FollowUps(empty());
      add(followUps, 'a');
      followUps.resolveNext('rejected', error);
      const shown = followUps.statuses()[0]?.error;
      expect(Buffer.byteLength(shown ?? '')).toBeLessThanOrEqual(200);
      expect(shown).not.toMatch(/\p{Cc}/u);
    }),
  );
});

test('a signal that is repeated into a full queue is listed once, and not at all once it found room', () => {
  const followUps = new FollowUps(empty());
  followUps.overflow('x');
  followUps.overflow('x');
  expect(followUps.statuses()).toEqual([{ id: 'x', state: 'abandoned', error: 'queue full' }]);
  add(followUps, 'x');
  expect(followUps.statuses()).toEqual([{ id: 'x', state: 'queued' }]);
});
