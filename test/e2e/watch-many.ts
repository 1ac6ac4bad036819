import { proxyActivities } from '@temporalio/workflow';
import type { JobActivities } from '../../src/activities/agent-job/job-activities.js';
import type { PollJobInput } from '../../src/activities/agent-job/poll-attempt.js';

/** Polls many jobs from one workflow, as `agentJob` polls its one, on the task queue of a production worker. */
export async function watchMany(taskQueue: string, inputs: PollJobInput[]): Promise<void> {
  const { pollJob } = proxyActivities<JobActivities>({
    taskQueue,
    startToCloseTimeout: '50 seconds',
    retry: { initialInterval: '1 second', backoffCoefficient: 1 },
  });
  await Promise.all(inputs.map((input) => pollJob(input)));
}
