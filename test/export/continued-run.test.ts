/** What a run of an export takes from the run before it. Cron is the one way to give it an input of one's own. */
import { expect, test } from 'vitest';
import { VISITOR_EXPORT_WORKFLOW, type VisitorExportInput } from '../../src/contract.js';
import { rangeOf, useExport, withWorkers } from './export.js';

const setUp = useExport({ visitors: { rows: 3 } });
const STATE = { todo: [], hasSoughtMissed: true, snapshots: [], failed: [], rangeState: null };

/** Starts an export whose second run continues the first one with this state; returns the second run's history. */
async function historyOfNextRun(input: VisitorExportInput, continued: object, has: string): Promise<string> {
  const { client, taskQueue } = setUp.server;
  const workflowId = `continued-${setUp.projectId}`;
  const args = [{ ...input, continued }];
  const options = { taskQueue, workflowId, args, cronSchedule: '@every 2s' };
  const { firstExecutionRunId } = await client.workflow.start(VISITOR_EXPORT_WORKFLOW, options);
  const historyOf = async (runId: string) =>
    JSON.stringify(await client.workflow.getHandle(workflowId, runId).fetchHistory());
  const next = async () => {
    const runId = /"newExecutionRunId":"([^"]+)"/.exec(await historyOf(firstExecutionRunId))?.[1];
    return runId === undefined ? '' : historyOf(runId);
  };
  try {
    await expect.poll(next).toContain(has);
    return await next();
  } finally {
    await client.workflow.getHandle(workflowId).terminate('the test is over');
  }
}

test('a run that a newer release continued is left to a worker of that release', async () => {
  const continued = { ...STATE, version: 99, todo: null };
  const told = 'a newer release continued this workflow (state version 99; this worker knows 1)';
  const history = await withWorkers(setUp, () => historyOfNextRun(rangeOf(setUp), continued, told));
  expect(history).not.toContain('workflowExecutionFailedEventAttributes');
});

test('a run that goes on does not check its time zone again, which another Node version may not know', async () => {
  const input = { projectId: setUp.projectId, timeZone: 'Mars/Olympus' };
  const continued = { ...STATE, version: 1, spec: { kind: 'scheduled', ...input, days: 1 } };
  const ended = 'workflowExecutionCompletedEventAttributes';
  const history = await withWorkers(setUp, () => historyOfNextRun(input, continued, ended));
  expect(history).not.toContain('workflowExecutionFailedEventAttributes');
});
