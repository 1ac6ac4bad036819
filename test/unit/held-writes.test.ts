/**
 * Writes that wait for a key, or behind a page, at the gates of several workers: the real decisions of workflow and
 * worker in a time that the test makes, with thousands of writes and hours of waiting.
 */
import { describe, expect, test } from 'vitest';
import { KeyHealth } from '../../src/activities/agent-job/key-health.js';
import type { WriteOperation } from '../../src/activities/metrics.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { seededRandom } from '../../src/sandbox/random.js';
import { afterEvent, type WriteEvent } from '../../src/workflows/agent-job/write-transitions.js';
import { beginWrite, mustAsk, notBeforeOf, type Write } from '../../src/workflows/agent-job/write.js';
import { unauthorized } from '../support/outcomes.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** From the answer of an activity to the next one, and from a send to its answer. */
const TASK_MS = 150;
const ANSWER_MS = 100;

const accepted: WriteOutcome = { kind: 'accepted', jobId: 'j', job: null };
const refused = unauthorized('upstream answered 401');
const forbidden: WriteOutcome = { kind: 'unauthorized', reason: 'upstream answered 403', isForbidden: true };
const page: WriteOutcome = { kind: 'blocked', reason: 'a page instead of an answer: 403 Just a moment…' };

interface Send {
  at: number;
  id: string;
  operation: WriteOperation;
  worker: number;
  outcome: WriteOutcome['kind'];
}

interface World {
  workers?: number;
  /** How the upstream answers the write of a workflow. */
  answer: (send: { at: number; id: string; operation: WriteOperation; key: string | null }) => WriteOutcome;
  /** The key that all workers have; default: always the same. */
  keyAt?: (at: number) => string | null;
  /** A write that waits is let go. */
  onLetTry?: (id: string) => void;
}

interface Due {
  at: number;
  happens: () => Promise<void>;
}

/** Workers, and the writes of one project. */
class Fleet {
  readonly sends: Send[] = [];
  now = 0;
  readonly #world: World;
  readonly #workers: KeyHealth[];
  readonly #random = seededRandom(1);
  readonly #gone = new Set<string>();
  readonly #due = new Set<Due>();

  constructor(world: World) {
    this.#world = world;
    const keyVersion = () => Promise.resolve(this.#key);
    const now = () => this.now;
    this.#workers = Array.from({ length: world.workers ?? 1 }, () => new KeyHealth({ upstream: { keyVersion }, now }));
  }

  get #key(): string | null {
    return this.#world.keyAt ? this.#world.keyAt(this.now) : 'a key';
  }

  /** Begins a write. */
  start(id: string, at: number, operation: WriteOperation = 'create'): void {
    const kind = operation === 'create' ? 'create' : 'followUp';
    this.#later(at, () => this.#step(id, operation, beginWrite({ kind, askedAt: at, requiresConfirmation: false })));
  }

  /** Its workflow ends; nothing of it is sent any more. */
  cancel(id: string): void {
    this.#gone.add(id);
  }

  get accepted(): Send[] {
    return this.sends.filter(({ outcome }) => outcome === 'accepted');
  }

  get refusedProjects(): string[] {
    return this.#workers[0]!.refusedProjects;
  }

  async run(until: number): Promise<void> {
    for (;;) {
      let next: Due | undefined;
      for (const due of this.#due) if (!next || due.at < next.at) next = due;
      if (!next || next.at > until) break;
      this.#due.delete(next);
      this.now = next.at;
      await next.happens();
    }
    this.now = until;
  }

  sent(from = 0, to = Infinity): Send[] {
    return this.sends.filter(({ at }) => at >= from && at < to);
  }

  #later(at: number, happens: () => Promise<void>): void {
    this.#due.add({ at, happens });
  }

  /** What the workflow does next with its write. */
  async #step(id: string, operation: WriteOperation, write: Write): Promise<void> {
    if (this.#gone.has(id)) return;
    const go = (event: WriteEvent, afterMs: number) =>
      this.#later(this.now + afterMs, () => this.#step(id, operation, this.#after(write, event)));
    if (notBeforeOf(write) > this.now) return this.#later(notBeforeOf(write), () => this.#step(id, operation, write));
    const worker = Math.floor(this.#random() * this.#workers.length);
    const keys = this.#workers[worker]!;
    const wanted = { operation, projectId: 'p', workflowId: id };
    if (mustAsk(write)) {
      const held = await keys.ask(wanted);
      if (held) return this.#later(this.now + held.askAgainMs, () => this.#step(id, operation, write));
      this.#world.onLetTry?.(id);
      return go({ kind: 'mayTry' }, TASK_MS);
    }
    const held = await keys.heldNow(wanted);
    if (held) return go({ kind: 'sendEnded', outcome: { ...held, isHeld: true }, beganAt: this.now }, TASK_MS);
    const beganAt = this.now;
    const outcome = this.#world.answer({ at: beganAt, id, operation, key: this.#key });
    this.sends.push({ at: beganAt, id, operation, worker, outcome: outcome.kind });
    this.#later(beganAt + ANSWER_MS, async () => {
      const ended = await keys.ended(wanted, outcome);
      if (ended.kind !== 'accepted') go({ kind: 'sendEnded', outcome: ended, beganAt }, TASK_MS);
    });
  }

  #after(write: Write, event: WriteEvent): Write {
    const sending = event.kind === 'sendEnded' ? afterEvent(write, { kind: 'send' }, this.#situation) : write;
    return afterEvent(sending, event, this.#situation);
  }

  get #situation() {
    const spec = { onUnknownOutcome: 'ask', decideWithinMs: null, startWithinMs: null } as const;
    return { spec, now: this.now, startedAt: 0, isCancelRequested: false };
  }
}

/** The most sends of an operation by one worker within any minute. */
function mostInAMinute(sends: Send[]): number {
  const counts = sends.map((one) => {
    const isNear = (other: Send) => other.at >= one.at && other.at < one.at + MINUTE;
    return sends.filter((other) => other.worker === one.worker && other.operation === one.operation && isNear(other));
  });
  return Math.max(0, ...counts.map(({ length }) => length));
}

const ids = (count: number) => Array.from({ length: count }, (_, i) => `w${i}`);

const byKey: World['answer'] = ({ key }) => (key === 'right' ? accepted : refused);
const CHANGED = 5 * MINUTE;
const refusedUntilChanged: World['answer'] = ({ at }) => (at < CHANGED ? refused : accepted);
const pagesUntilChanged: World['answer'] = ({ at }) => (at < CHANGED ? page : accepted);
const sameKey = () => 'key';

describe.each([1, 3, 20])('with %i workers, a thousand creates', (workers) => {
  test.each([
    ['a wrong key', (at: number) => (at < CHANGED ? 'wrong' : 'right'), byKey],
    ['a key that lacks a right', sameKey, refusedUntilChanged],
    ['a page', sameKey, pagesUntilChanged],
  ])(
    'that %s holds try once a minute and worker, and all go within two minutes of its end',
    async (_, keyAt, answer) => {
      const fleet = new Fleet({ workers, keyAt, answer });
      for (const [i, id] of ids(1_000).entries()) fleet.start(id, i * 20);
      await fleet.run(CHANGED);
      const tries = fleet.sent(MINUTE);
      expect(mostInAMinute(tries)).toBe(1);
      // None tries twice in a row while others wait.
      const before = (i: number) => tries.slice(0, i).findLast(({ worker }) => worker === tries[i]!.worker);
      expect(tries.filter(({ id }, i) => before(i)?.id === id)).toEqual([]);
      await fleet.run(CHANGED + 2 * MINUTE);
      expect(fleet.accepted).toHaveLength(1_000);
      expect(fleet.sent(CHANGED)).toHaveLength(1_000);
    },
  );

  test('that have no key make no try until there is one', async () => {
    const fleet = new Fleet({ workers, keyAt: (at) => (at < CHANGED ? null : 'right'), answer: byKey });
    for (const id of ids(1_000)) fleet.start(id, 0);
    await fleet.run(CHANGED);
    expect(fleet.sent(MINUTE)).toEqual([]);
    await fleet.run(CHANGED + 2 * MINUTE);
    expect(fleet.accepted).toHaveLength(1_000);
  });

  test('wait for one try when the first prompt is forbidden, which then holds none', async () => {
    const fleet = new Fleet({ workers, answer: ({ id }) => (id === 'odd' ? forbidden : accepted) });
    fleet.start('odd', 0);
    for (const id of ids(1_000)) fleet.start(id, SECOND);
    await fleet.run(2 * MINUTE);
    expect(fleet.accepted).toHaveLength(1_000);
  });
});

test.each([forbidden, page])(
  'a prompt that alone is stopped (%j) holds no others, and goes ever more rarely',
  async (no) => {
    const fleet = new Fleet({ answer: ({ id }) => (id === 'odd' ? no : accepted) });
    for (const [i, id] of ids(60).entries()) fleet.start(id, i * 10 * SECOND);
    fleet.start('odd', 5 * SECOND);
    await fleet.run(10 * MINUTE);
    expect(fleet.accepted.map(({ at }) => at)).toEqual(ids(60).map((_, i) => i * 10 * SECOND));
    // At once, after 10, 20 and 40 seconds, and then each minute.
    expect(fleet.sent().filter(({ id }) => id === 'odd')).toHaveLength(13);
  },
);

test('a forbidden prompt that waits alone makes a later write wait for at most one try', async () => {
  const fleet = new Fleet({ answer: ({ id }) => (id === 'odd' ? forbidden : accepted) });
  fleet.start('odd', 0);
  for (const [i, id] of ids(20).entries()) fleet.start(id, (i + 1) * 10 * MINUTE + i * 3 * SECOND);
  for (let i = 0; i < 20; i++) {
    await fleet.run((i + 1) * 10 * MINUTE + i * 3 * SECOND + MINUTE + 6 * SECOND);
    expect(fleet.accepted).toHaveLength(i + 1);
  }
});

test('a key that may create and not message holds messages alone', async () => {
  const fleet = new Fleet({ answer: ({ operation }) => (operation === 'create' ? accepted : refused) });
  for (const [i, id] of ids(100).entries()) {
    fleet.start(id, i * 3 * SECOND);
    fleet.start(`${id} message`, i * 3 * SECOND, 'message');
  }
  await fleet.run(10 * MINUTE);
  expect(fleet.accepted.map(({ at }) => at)).toEqual(ids(100).map((_, i) => i * 3 * SECOND));
  expect(mostInAMinute(fleet.sent().filter(({ operation }) => operation === 'message'))).toBe(1);
});

test('each that is let go and ends before it is sent costs the others a minute', async () => {
  let dying = 3;
  const onLetTry = (id: string) => void (dying-- > 0 && fleet.cancel(id));
  const fleet: Fleet = new Fleet({ keyAt: (at) => (at < CHANGED ? null : 'right'), answer: byKey, onLetTry });
  for (const id of ids(50)) fleet.start(id, 0);
  await fleet.run(CHANGED + 3 * MINUTE);
  expect(fleet.sent(MINUTE)).toEqual([]);
  await fleet.run(CHANGED + 4 * MINUTE);
  expect(fleet.accepted).toHaveLength(47);
});

test('a key that flaps is tried once for each change', async () => {
  const keyAt = (at: number) => (Math.floor(at / (10 * SECOND)) % 2 === 0 ? 'one' : 'other');
  const fleet = new Fleet({ keyAt, answer: () => refused });
  for (const id of ids(200)) fleet.start(id, 0);
  await fleet.run(10 * MINUTE);
  expect(fleet.sent(SECOND)).toHaveLength(59);
});

test('projects whose writes wait for a key are known until none waits', async () => {
  for (const [answer, known] of [
    [byKey, ['p']],
    [() => page, []],
  ] as const) {
    const fleet = new Fleet({ keyAt: () => null, answer });
    for (const id of ids(3)) fleet.start(id, 0);
    await fleet.run(10 * MINUTE);
    expect(fleet.refusedProjects).toEqual(known);
    for (const id of ids(3)) fleet.cancel(id);
    await fleet.run(12 * MINUTE);
    expect(fleet.refusedProjects).toEqual([]);
  }
});
