/** What Temporal tells of the Schedule of a job, whatever another client or tool has written there. */
import { ScheduleOverlapPolicy, type ScheduleDescription } from '@temporalio/client';
import { RECURRING_JOB_WORKFLOW, recurringJobOf, type RecurringJobInput } from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { HIDE_PROMPTS_MEMO } from '../../contract/recurring-job.js';
import { parseRecurringJob, type RecurringJobSpec } from '../../agent-job/recurring-input.js';
import { DEFAULT, looksLikeCron, type JobScheduleSpec } from './schedule-spec.js';

/** As Temporal has it: another client may have written what makes no job. */
export interface DescribedSpec extends JobScheduleSpec {
  /** Why its runs fail, or are left out; null where they are not. */
  problem: string | null;
}

const STAND_INS = { projectId: 'p', name: 'n', prompt: 'p', timeZone: DEFAULT.timeZone };

/** The spec of a Schedule that Temporal describes, whatever another client has written there. */
export function specOf(schedule: ScheduleDescription): DescribedSpec {
  const { spec, policies } = schedule;
  const calendars = spec.calendars ?? [];
  const intervals = spec.intervals ?? [];
  const isOurs = calendars.length + intervals.length === 1;
  const comment = calendars[0]?.comment ?? '';
  const input = inputOf(schedule);
  return {
    ...input,
    problem: input.problem ?? foreignSetting(schedule),
    cron: isOurs && looksLikeCron(comment) ? comment : null,
    everyMs: (isOurs && intervals[0] && !intervals[0].offset && Number(intervals[0].every)) || null,
    jitterMs: spec.jitter ?? 0,
    catchUpMs: policies.catchupWindow,
  };
}

function inputOf({ scheduleId, action }: ScheduleDescription): RecurringJobSpec & Pick<DescribedSpec, 'problem'> {
  const [input] = (action.args ?? []) as [Partial<RecurringJobInput>?];
  try {
    return { ...parseRecurringJob(input), problem: null };
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const { projectId = '', name = '' } = recurringJobOf(scheduleId) ?? {};
    const told = { prompt: textOf(input?.prompt), timeZone: textOf(input?.timeZone) || DEFAULT.timeZone };
    return { projectId, name, ...told, ...restOf(input), problem: error.message };
  }
}

/** What is right in an input whose prompt or names are wrong: whoever mends those keeps it. */
function restOf(input?: Partial<RecurringJobInput>): Pick<RecurringJobSpec, 'overlap' | 'queueForMs' | 'options'> {
  try {
    const { overlap, queueForMs, options } = parseRecurringJob({ ...input, ...STAND_INS });
    return { overlap, queueForMs, options };
  } catch {
    return { overlap: 'skip', queueForMs: 0, options: {} };
  }
}

/** What another tool has set so that times pass without a run of ours; any change by us sets it right. */
function foreignSetting({ action: { workflowType }, policies: { overlap } }: ScheduleDescription): string | null {
  const isOurs = workflowType === RECURRING_JOB_WORKFLOW && overlap === ScheduleOverlapPolicy.ALLOW_ALL;
  return isOurs
    ? null
    : `must start ${RECURRING_JOB_WORKFLOW} with overlap ALLOW_ALL; it starts ${workflowType} with overlap ${overlap}`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Whether the prompt is hidden from whoever reads the Schedule. */
export function hidesPrompt({ action }: ScheduleDescription): boolean {
  return action.memo?.[HIDE_PROMPTS_MEMO] === true;
}
