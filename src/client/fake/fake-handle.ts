/** The handle of a fake job: it checks what the real one checks, and asks the job itself. */
import { randomUUID } from 'node:crypto';
import { agentJobOf, type JobState } from '../../contract.js';
import { parseFollowUp } from '../../agent-job/input.js';
import { parseAttribution } from '../../agent-job/input.js';
import { FOLLOW_UP_OPTIONS, type FollowUpOptions } from '../agent-job/follow-up.js';
import type { JobHandle } from '../agent-job/handle.js';
import { ATTRIBUTION_OPTIONS, checkResolution } from '../known-fields.js';
import { checkLimits, checkWaitOptions, type WaitOptions } from '../temporal-call.js';
import type { FakeJob } from './fake-job.js';

/** Each call looks for the job anew: `jobOf` throws JobNotFoundError. */
export function fakeHandle(workflowId: string, jobOf: () => FakeJob, isNew?: boolean): JobHandle {
  const send = (prompt: string, options: FollowUpOptions = {}) => {
    const { id, prompt: text } = parseFollowUp({
      prompt,
      id: options.id ?? randomUUID(),
      priority: options.priority,
    });
    checkLimits(options, FOLLOW_UP_OPTIONS);
    return jobOf().send(id ?? '', text, options.onlyWhileRunning ?? false);
  };
  const resolve: JobHandle['resolve'] = async (resolution, options = {}) => {
    const checked = checkResolution(resolution);
    checkLimits(options);
    const job = jobOf();
    job.settle(checked);
    return job.state;
  };
  return {
    workflowId,
    projectId: agentJobOf(workflowId)?.projectId ?? null,
    key: agentJobOf(workflowId)?.key ?? null,
    runId: null,
    url: null,
    isNew,
    followUp: async (prompt, options) => ({ id: send(prompt, options).id }),
    sendFollowUp: async (prompt, options) => send(prompt, options),
    state: async (options = {}) => {
      checkLimits(options);
      return jobOf().state;
    },
    pollNow: async (options = {}) => {
      parseAttribution(options);
      checkLimits(options, ATTRIBUTION_OPTIONS);
      jobOf().checkRuns();
    },
    resolve,
    cancel: async (options = {}) => {
      parseAttribution(options);
      checkLimits(options, ATTRIBUTION_OPTIONS);
      jobOf().cancel();
    },
    result: async (options) => {
      checkWaitOptions(options);
      return jobOf().ended(options?.signal);
    },
    watch: (options) => watchFake(jobOf, options),
  };
}

/** Each state, until the run is over. */
async function* watchFake(jobOf: () => FakeJob, options: WaitOptions = {}): AsyncGenerator<JobState, void> {
  checkWaitOptions(options);
  const { signal } = options;
  const job = jobOf();
  for (let last = ''; ;) {
    const changed = job.hasEnded ? undefined : job.changed(signal);
    changed?.catch(() => {}); // it may be aborted while the caller is not waiting
    const { state } = job;
    if (JSON.stringify(state) !== last) yield state;
    last = JSON.stringify(state);
    if (changed === undefined) return;
    await changed;
  }
}
