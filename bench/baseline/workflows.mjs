// The same work as in Temporal's tutorials: an activity for each call, and a timer between two polls.
import { defineSignal, proxyActivities, setHandler, sleep } from '@temporalio/workflow';

const { createJob, getJob, sendMessage } = proxyActivities({ startToCloseTimeout: '1 minute' });
const followUp = defineSignal('followUp');

/**
 * Input: `prompt`, and the polling plan `minMs`, `maxMs`, `ratio` (share of the time since the last change). Result:
 * the job's record.
 */
export async function baselineJob({ prompt, minMs, maxMs, ratio }) {
  const inbox = [];
  setHandler(followUp, (text) => void inbox.push(text));
  let job = await createJob(prompt);
  let changedAt = Date.now();
  while (job.status === 'active') {
    await sleep(Math.min(Math.max(ratio * (Date.now() - changedAt), minMs), maxMs));
    while (inbox.length > 0) {
      await sendMessage(job.id, inbox.shift());
      changedAt = Date.now();
    }
    job = await getJob(job.id);
  }
  return job;
}
