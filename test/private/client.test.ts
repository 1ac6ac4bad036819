/** What the SDK's client lacks: a test that fails here says that a workaround in `src/temporal/private` can go. */
import { randomUUID } from 'node:crypto';
import type { ListOptions, WorkflowHandle, WorkflowStartOptions, WorkflowUpdateHandle } from '@temporalio/client';
import { WorkflowClient } from '@temporalio/client';
import { expect, expectTypeOf, test } from 'vitest';
import { CancelClient } from '../../src/temporal/private/cancel-reason.js';
import { readListPage } from '../../src/temporal/private/list-page.js';
import { withRequestId } from '../../src/temporal/private/restart-request-id.js';
import { connectDevServer } from '../support/dev-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectDevServer);

/** No worker takes it. */
function optionsOf(workflowId: string) {
  return { workflowId, taskQueue: `nobody-${workflowId}` };
}

test('a start has no request id but by the symbol, and a repetition with it is the same start', async () => {
  expectTypeOf<Extract<keyof WorkflowStartOptions, `${string}equestId`>>().toBeNever();
  const options = {
    ...optionsOf(randomUUID()),
    ...withRequestId(randomUUID()),
    workflowIdConflictPolicy: 'FAIL',
  } as const;
  const start = () => server.client.workflow.start('any', options);
  const [first, second] = [await start(), await start()];
  expect(second.firstExecutionRunId).toBe(first.firstExecutionRunId);
  await first.terminate();
});

/** What the workaround learns, `test/client/follow-up.test.ts` uses. */
test('a handle of an update does not say whether its outcome is known, and the handler below it does', () => {
  type Known = 'updateId' | 'workflowId' | 'workflowRunId' | 'result';
  expectTypeOf<keyof WorkflowUpdateHandle<unknown>>().toEqualTypeOf<Known>();
  expect(Reflect.has(WorkflowClient.prototype, '_updateWithStartHandler')).toBe(true);
});

test('a cancellation takes no reason, but by the handler', async () => {
  expectTypeOf<Parameters<WorkflowHandle['cancel']>>().toEqualTypeOf<[]>();
  const { workflowId } = await server.client.workflow.start('any', optionsOf(randomUUID()));
  const handle = new CancelClient(server.client, { by: 'ann', note: 'not needed' }).getHandle(workflowId);
  await handle.cancel();
  const { events } = await handle.fetchHistory();
  const asked = events?.flatMap((event) => event.workflowExecutionCancelRequestedEventAttributes ?? []);
  expect(asked).toMatchObject([{ identity: 'ann', cause: 'not needed' }]);
  await handle.terminate();
});

test('a list takes no token and has none, but by the raw call', async () => {
  expectTypeOf<keyof ListOptions>().toEqualTypeOf<'pageSize' | 'query'>();
  const ids = [randomUUID(), randomUUID()];
  const handles = await Promise.all(ids.map((id) => server.client.workflow.start('any', optionsOf(id))));
  const query = ids.map((id) => `WorkflowId = '${id}'`).join(' OR ');
  await expect.poll(async () => (await server.client.workflow.count(query)).count).toBe(2);
  const first = await readListPage(server.client, { query, pageSize: 1, token: null });
  const second = await readListPage(server.client, { query, pageSize: 1, token: first.token });
  expect([...first.runs, ...second.runs].map(({ workflowId }) => workflowId).toSorted()).toEqual(ids.toSorted());
  await Promise.all(handles.map((handle) => handle.terminate()));
});
