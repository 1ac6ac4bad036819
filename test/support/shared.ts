import { inject } from 'vitest';
import type { Shared } from './test-host.js';

/** Asks the run's test host for something that all test files share; the first one to ask has it made. */
export async function shared<K extends keyof Shared>(name: K): Promise<Shared[K]> {
  const response = await fetch(`${inject('testHost')}/${name}`, { headers: { connection: 'close' } });
  if (!response.ok) throw new Error(`${name}: ${await response.text()}`);
  return (await response.json()) as Shared[K];
}
