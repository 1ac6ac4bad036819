import type { FollowUpStatus } from '../../src/contract.js';
import { BrokenPromise } from './contract-model.js';

/** Throws where what was seen is not what the model expects. */
export function expectEqual(what: string, actual: unknown, expected: unknown): void {
  const [a, e] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== e) throw new BrokenPromise(`${what}: ${a} instead of ${e}`);
}

/** Follow-ups without their errors. */
export function fatesOf(followUps: FollowUpStatus[]): { id: string; state: string }[] {
  return followUps.map(({ id, state }) => ({ id, state }));
}

/** The same object, whose calls are told. */
export function logged<T extends object>(target: T, tell: (call: string) => void): T {
  return new Proxy(target, {
    get(_, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        const told = args.slice(1).map((arg) => JSON.stringify(arg));
        tell(`${String(name)}(${told.join(', ')})`);
        return value.apply(target, args) as unknown;
      };
    },
  });
}
