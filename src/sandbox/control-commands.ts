import * as z from 'zod';
import type { ApiKey, ApiKeys } from './api-keys.js';
import { apiKeySchema } from './api-keys.js';
import type { RequestLog, OperationCount, RequestRecord } from './request-log.js';
import type { Chaos } from './random-faults.js';
import { chaosRules, chaosSchema } from './random-faults.js';
import type { SandboxClock } from './clock.js';
import type { ConnectionCount, Connections } from './connections.js';
import { parseFaultRule } from './fault-rule.js';
import type { FaultRule } from './fault-rule.js';
import type { Faults, FaultStatus } from './armed-faults.js';
import type { JobScript, JobStep } from './job-script.js';
import { jobScriptSchema, jobStepSchema } from './job-script.js';
import type { CreateRecord, Jobs, MessageRecord, ScriptRule } from './jobs.js';
import { scriptRuleSchema } from './jobs.js';
import type { RateLimiter, RateLimits } from './rate-limit.js';
import { rateLimitsSchema } from './rate-limit.js';
import type { Operation } from './route.js';
import type { VisitorSettings } from './visitor-settings.js';
import { visitorSettingsSchema } from './visitor-settings.js';
import type { Visitors, ExpectedSnapshot } from './visitors.js';

/** Counts since the start or the last `resetCounts`. */
export interface SandboxCounts {
  operations: Record<Operation | 'other', OperationCount>;
  connections: ConnectionCount;
  /** Injected faults by kind. */
  faults: Record<string, number>;
  /** Requests to the default target of `redirect` faults. */
  redirectTargetVisits: number;
  jobs: number;
  messages: number;
}

/** Which part of a list; default: all of it. */
export interface Paging {
  offset?: number | undefined;
  limit?: number | undefined;
}

/** The control's commands: one JSON argument, one JSON result; the same in the process and over HTTP. */
export interface ControlCommands {
  addFault(rule: FaultRule): { id: number };
  chaos(chaos: Chaos): { rules: number };
  clearFaults(): null;
  faults(): FaultStatus[];
  setScript(script: JobScript): null;
  addScript(rule: ScriptRule): null;
  setJob(change: { id: string } & JobStep): null;
  removeJob(job: { id: string }): null;
  job(job: { id: string }): unknown;
  creates(filter: { projectId?: string | undefined; promptIncludes?: string | undefined } & Paging): CreateRecord[];
  messages(filter: { jobId?: string | undefined } & Paging): MessageRecord[];
  counts(): SandboxCounts;
  resetCounts(): null;
  requests(filter: { limit?: number | undefined }): RequestRecord[];
  setKeys(keys: { keys: ApiKey[] }): null;
  setRateLimits(limits: RateLimits): null;
  setVisitors(settings: { projectId?: string | undefined } & VisitorSettings): null;
  expectedSnapshot(window: { projectId: string; dateFrom: string; dateTo: string }): ExpectedSnapshot;
  now(): { now: string };
  advance(time: { ms: number }): { now: string };
  closeIdleConnections(): null;
}

/** The parts of a sandbox that its control reaches. */
interface ControlledParts {
  requestLog: RequestLog;
  clock: SandboxClock;
  connections: Connections;
  faults: Faults;
  jobs: Jobs;
  keys: ApiKeys;
  limiter: RateLimiter;
  redirectTarget: { visits: number };
  visitors: Visitors;
  closeIdleConnections: () => void;
}

const paging = { offset: z.int().min(0).optional(), limit: z.int().min(0).optional() };
const jobId = named('id', z.string());
const createsFilter = z.strictObject({
  projectId: z.string().optional(),
  promptIncludes: z.string().optional(),
  ...paging,
});
const messagesFilter = z.strictObject({ jobId: z.string().optional(), ...paging });
const requestsFilter = z.strictObject({ limit: z.int().min(1).optional() });
const jobChange = jobStepSchema.extend({ id: z.string() });
const keyList = named('keys', z.array(apiKeySchema));
const visitorChange = visitorSettingsSchema.extend({ projectId: z.string().optional() });
const windowSchema = z.strictObject({ projectId: z.string(), dateFrom: z.string(), dateTo: z.string() });
const timeSchema = named('ms', z.number().min(0));

/** An argument by its name, or alone, as the method of `SandboxControl` takes it. */
function named<Name extends string, Schema extends z.ZodType>(name: Name, schema: Schema) {
  const isAlone = (given: unknown) => typeof given !== 'object' || Array.isArray(given);
  const shape = { [name]: schema } as Record<Name, Schema>;
  return z.preprocess((given) => (isAlone(given) ? { [name]: given } : given), z.strictObject(shape));
}

/** The commands of one sandbox; a wrong argument throws and changes nothing. */
export function controlCommands(parts: ControlledParts): ControlCommands {
  return { ...faultCommands(parts), ...jobCommands(parts), ...logCommands(parts), ...settingCommands(parts) };
}

type Some<Name extends keyof ControlCommands> = Pick<ControlCommands, Name>;

function faultCommands({ faults }: ControlledParts): Some<'addFault' | 'chaos' | 'clearFaults' | 'faults'> {
  return {
    addFault: (rule) => ({ id: faults.add(parseFaultRule(rule)) }),
    chaos: (chaos) => ({ rules: chaosRules(chaosSchema.parse(chaos)).map((rule) => faults.add(rule)).length }),
    clearFaults: () => (faults.clear(), null),
    faults: () => faults.list(),
  };
}

function jobCommands({ jobs }: ControlledParts): Some<'setScript' | 'addScript' | 'setJob' | 'removeJob' | 'job'> {
  const known = (found: boolean, id: string) => {
    if (!found) throw new Error(`no job ${id}`);
    return null;
  };
  return {
    setScript: (script) => (jobs.setDefaultScript(jobScriptSchema.parse(script)), null),
    addScript: (rule) => (jobs.addRule(scriptRuleSchema.parse(rule)), null),
    setJob: (change) => {
      const { id, ...step } = jobChange.parse(change);
      return known(jobs.set(id, step), id);
    },
    removeJob: (job) => {
      const { id } = jobId.parse(job);
      return known(jobs.remove(id), id);
    },
    job: (job) => jobs.peek(jobId.parse(job).id) ?? null,
  };
}

function logCommands({ requestLog, connections, faults, jobs, redirectTarget }: ControlledParts) {
  return {
    creates: (filter) => {
      const { projectId, promptIncludes, ...page } = createsFilter.parse(filter ?? {});
      const wanted = (create: CreateRecord) =>
        (projectId === undefined || create.projectId === projectId) &&
        (promptIncludes === undefined || create.prompt.includes(promptIncludes));
      return take(jobs.creates(), page, wanted);
    },
    messages: (filter) => {
      const { jobId: id, ...page } = messagesFilter.parse(filter ?? {});
      return take(jobs.messages(id), page);
    },
    counts: () => ({
      operations: requestLog.counts(),
      connections: connections.counts(),
      faults: faults.counts(),
      redirectTargetVisits: redirectTarget.visits,
      jobs: jobs.size,
      messages: jobs.messagesTaken,
    }),
    resetCounts: () => {
      requestLog.reset();
      faults.resetCounts();
      redirectTarget.visits = 0;
      return null;
    },
    requests: (filter) => requestLog.requests(requestsFilter.parse(filter ?? {}).limit ?? Infinity),
  } satisfies Partial<ControlCommands>;
}

function settingCommands({ clock, keys, limiter, visitors, closeIdleConnections }: ControlledParts) {
  const now = () => ({ now: new Date(clock.now()).toISOString() });
  return {
    setKeys: (list) => (keys.replace(keyList.parse(list).keys), null),
    setRateLimits: (limits) => (limiter.replace(rateLimitsSchema.parse(limits)), null),
    setVisitors: (change) => {
      const { projectId, ...settings } = visitorChange.parse(change);
      visitors.set(settings, projectId);
      return null;
    },
    expectedSnapshot: (window) => {
      const { projectId, dateFrom, dateTo } = windowSchema.parse(window);
      return visitors.expectedSnapshot(projectId, dateFrom, dateTo);
    },
    now,
    advance: (time) => {
      clock.advance(timeSchema.parse(time).ms);
      return now();
    },
    closeIdleConnections: () => (closeIdleConnections(), null),
  } satisfies Partial<ControlCommands>;
}

function take<T>(
  all: Iterable<T>,
  { offset = 0, limit = Infinity }: Paging,
  wanted: (item: T) => boolean = () => true,
): T[] {
  const taken: T[] = [];
  let skipped = 0;
  for (const item of all) {
    if (!wanted(item) || skipped++ < offset) continue;
    if (taken.length >= limit) break;
    taken.push(item);
  }
  return taken;
}
