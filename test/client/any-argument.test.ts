/** Whatever a JavaScript caller gives, the client's error says what was wrong; null options are none. */
import { expect, test } from 'vitest';
import { AgentJobs, AgentJobsError } from '../../src/starter.js';
import { useNoServer } from './no-server.js';

const jobs = useNoServer();

const objects: Record<string, [object: object, left: string[]]> = {
  // It does not close a client of the caller's own.
  AgentJobs: [jobs, ['close']],
  // These wait until Temporal is there.
  JobHandle: [jobs.handle({ projectId: 'p', key: 'k' }), ['result', 'watch']],
};

type Method = (...args: unknown[]) => unknown;

function methodsOf([object, left]: [object: object, left: string[]]): [name: string, method: Method][] {
  const owner = object instanceof AgentJobs ? AgentJobs.prototype : object;
  return Object.entries(Object.getOwnPropertyDescriptors(owner))
    .filter(([name, { value }]) => typeof value === 'function' && !['constructor', ...left].includes(name))
    .map(([name, { value }]) => [name, (value as Method).bind(object)]);
}

const methods = Object.entries(objects).flatMap(([type, given]) =>
  methodsOf(given).map(([name, method]): [string, Method] => [`${type}.${name}`, method]),
);
const given = [null, undefined, 7, 'x', [], {}];
const argumentLists = [[], ...given.map((value) => [value]), ...given.flatMap((value) => [[value, null]])];

/** What a call throws, an iteration's first step included. */
async function errorOf(method: Method, args: unknown[]): Promise<unknown> {
  try {
    const result = await method(...args);
    if (typeof result === 'object' && result !== null && Symbol.asyncIterator in result) {
      for await (const _ of result as AsyncIterable<unknown>) break;
    }
    return null;
  } catch (error) {
    return error;
  }
}

test.each(methods)('%s throws an error of ours, or none', async (_, method) => {
  const thrown = await Promise.all(argumentLists.map((args) => errorOf(method, args)));
  const foreign = thrown.filter((error) => error !== null && !(error instanceof AgentJobsError));
  expect(foreign).toEqual([]);
  expect(thrown.filter((error) => error instanceof AgentJobsError && error.code.length > 0).length).toBeGreaterThan(0);
});

test('a call ends with the reason of a signal that is not Node’s own', async () => {
  let abort = (): void => {};
  const reason = new Error('stop');
  const signal = {
    aborted: false,
    reason,
    throwIfAborted: () => {},
    removeEventListener: () => {},
    addEventListener: (_: string, listener: () => void) => (abort = listener),
  } as unknown as AbortSignal;
  const waiting = jobs.handle('agent-job/p/k').result({ signal });
  setImmediate(() => abort());
  await expect(waiting).rejects.toBe(reason);
});
