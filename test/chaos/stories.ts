import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { readStory, type RunStory } from './history.js';

const LISTED_WITHIN_MS = 60_000;
const READERS = 8;

/** The stories of all runs on a task queue, in no order. */
export async function readStories(client: Client, taskQueue: string): Promise<RunStory[]> {
  await untilListed(client, taskQueue);
  const runs = [];
  for await (const { workflowId, runId, startTime } of client.workflow.list({ query: `TaskQueue = '${taskQueue}'` })) {
    runs.push({ workflowId, runId, startedAt: startTime.getTime() });
  }
  const stories: RunStory[] = [];
  const next = runs.values();
  const reader = async () => {
    for (const run of next) stories.push(await readStory(client, run));
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  return stories;
}

/** The list of a busy server lags behind: a run that it still shows as open may have ended, or begun another. */
async function untilListed(client: Client, taskQueue: string): Promise<void> {
  const query = `TaskQueue = '${taskQueue}' AND ExecutionStatus = 'Running'`;
  for (const until = Date.now() + LISTED_WITHIN_MS; Date.now() < until; await pause(1_000)) {
    if ((await client.workflow.count(query)).count === 0) return;
  }
}
