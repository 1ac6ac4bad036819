import { expect, test } from 'vitest';
import { STALE_COPY } from '../../src/contract/shared.js';
import { queryAgain } from '../../src/temporal/workflow-clients.js';

/** A query that fails a number of times, then returns how often it was asked. */
function failing(times: number, error: Error): () => Promise<number> {
  let asked = 0;
  return () => (++asked > times ? Promise.resolve(asked) : Promise.reject(error));
}

const spoilt = new Error('query failed', { cause: new Error(`3 INVALID_ARGUMENT: ${STALE_COPY}: ask again`) });

test('a query that spoilt its worker’s copy of the run is asked again, three times in all', async () => {
  expect(await queryAgain(failing(2, spoilt))).toBe(3);
  await expect(queryAgain(failing(3, spoilt))).rejects.toBe(spoilt);
});

test('a query that failed for another reason is not asked again', async () => {
  const other = new Error('the workflow does not know this query');
  await expect(queryAgain(failing(1, other))).rejects.toBe(other);
});
