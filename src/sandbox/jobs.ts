/** The jobs of a sandbox: their lives as scripts say, in memory and, if asked, in a journal that outlives a restart. */
import { randomBytes } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync } from 'node:fs';
import { dirname } from 'node:path';
import * as z from 'zod';
import type { JobRecord } from '../contract.js';
import { duration, optional } from '../contract/kinds.js';

const milliseconds = z.number().min(0);

/** The shape of a step. */
export const jobStepSchema = z.strictObject({
  /** Any text, known to the interface or not; default `active`. */
  status: z.string().optional(),
  /** The step begins this long after the one before it. */
  afterMs: milliseconds.optional(),
  /** How many polls must show the step before it; with `afterMs`, both must hold. */
  afterReads: z.int().min(0).optional(),
  /** `true` stands for a made-up address of a pull request; anything else is shown as it is. Default null. */
  prLink: z.json().optional(),
});

/** One step of a job's life, as its record shows it. */
export type JobStep = z.input<typeof jobStepSchema>;

/** The shape of a script. */
export const jobScriptSchema = z.strictObject({
  /** Without `steps`: how long the job stays active before it completes with a pull request. Default 4000. */
  activeMs: milliseconds.optional(),
  /** The whole life; the last step lasts for ever. */
  steps: z.array(jobStepSchema).min(1).optional(),
  /** How long a message waits before the job takes it up; until then the old status shows. Default 50. */
  messageLagMs: milliseconds.optional(),
  /** A pull request shows only this long after the job was completed; default: as the steps say. */
  prLinkLagMs: milliseconds.optional(),
  /** The ids of jobs are whole numbers. */
  numericId: z.boolean().optional(),
  /** What a message starts: the given steps, nothing, or (default) active for `activeMs`, then completed again. */
  followUp: z.union([z.literal('ignore'), z.array(jobStepSchema).min(1)]).optional(),
});

/** A scripted life of a job; anything not said is as in the default life. */
export type JobScript = z.input<typeof jobScriptSchema>;

const DEFAULT_ACTIVE_MS = 4_000;
const DEFAULT_MESSAGE_LAG_MS = 50;

/** Options of programs, for jobs that are as late as those of a real upstream. */
export const LAG_OPTIONS = { 'late-pr': { type: 'string' }, 'stale-end': { type: 'string' } } as const;

/** What these options make of a script. */
export function lagsOf(values: { [Name in keyof typeof LAG_OPTIONS]?: string | undefined }): JobScript {
  return {
    prLinkLagMs: optional(duration(), 0).check(values['late-pr'], '--late-pr'),
    messageLagMs: optional(duration(), DEFAULT_MESSAGE_LAG_MS).check(values['stale-end'], '--stale-end'),
  };
}

function activeThenCompleted({ activeMs = DEFAULT_ACTIVE_MS }: JobScript): JobStep[] {
  return [{ status: 'active' }, { afterMs: activeMs, status: 'completed', prLink: true }];
}

interface JobFacts {
  id: string | number;
  number: number;
  createdAt: number;
}

/** The record that a step shows; `since` is when the step began. */
function showStep(
  { status = 'active', prLink = null }: JobStep,
  job: JobFacts,
  since: number,
): Record<keyof JobRecord, unknown> {
  return {
    id: job.id,
    status,
    source: { repository: 'acme/site', ref: 'main' },
    model: 'sandbox-model-1',
    prLink: prLink === true ? `https://github.example/acme/site/pull/${job.number}` : prLink,
    createdAt: new Date(job.createdAt).toISOString(),
    archivedAt: status === 'archived' ? new Date(since).toISOString() : null,
  };
}

/** The current step of a job, computed from times on each poll: a hundred thousand idle jobs need no timers. */
class JobLife {
  readonly #job: JobFacts;
  readonly #script: JobScript;
  #steps: JobStep[];
  #index = 0;
  #polls = 0;
  #since: number;
  /** When the messages that wait start their steps. */
  #restarts: number[] | undefined;

  constructor(job: JobFacts, script: JobScript) {
    this.#job = job;
    this.#script = script;
    this.#steps = script.steps ?? activeThenCompleted(script);
    this.#since = job.createdAt;
  }

  /** Takes a message, which starts other steps after its lag. */
  message(at: number): void {
    if (this.#script.followUp === 'ignore') return;
    (this.#restarts ??= []).push(at + (this.#script.messageLagMs ?? DEFAULT_MESSAGE_LAG_MS));
  }

  /** Sets one step until the next message. */
  fix(step: JobStep, now: number): void {
    this.#restarts = undefined;
    this.#begin([step], now);
  }

  /** The record now; a counted poll advances steps that wait for polls. */
  show(now: number, isCounted: boolean): object {
    const { followUp = activeThenCompleted(this.#script), prLinkLagMs: lagMs = 0 } = this.#script;
    while (followUp !== 'ignore' && this.#restarts?.[0] !== undefined && this.#restarts[0] <= now) {
      this.#begin(followUp, this.#restarts.shift() ?? now);
    }
    while (this.#nextIsDue(now)) this.#advance(now);
    if (isCounted) this.#polls++;
    const { prLink, ...step } = this.#steps[this.#index] ?? {};
    const isLate = lagMs > 0 && (step.status !== 'completed' || now - this.#since < lagMs);
    return showStep(isLate ? step : { ...step, prLink }, this.#job, this.#since);
  }

  #begin(steps: JobStep[], since: number): void {
    this.#steps = steps;
    this.#since = since;
    this.#index = 0;
    this.#polls = 0;
  }

  #nextIsDue(now: number): boolean {
    const next = this.#steps[this.#index + 1];
    return next !== undefined && now - this.#since >= (next.afterMs ?? 0) && this.#polls >= (next.afterReads ?? 0);
  }

  #advance(now: number): void {
    const next = this.#steps[++this.#index];
    // A step that waited for polls begins now; one that waited for time began when that time was over.
    this.#since = next?.afterReads === undefined ? this.#since + (next?.afterMs ?? 0) : now;
    this.#polls = 0;
  }
}

/** The shape of a rule for scripts. */
export const scriptRuleSchema = z.strictObject({
  promptIncludes: z.string().optional(),
  projectId: z.string().optional(),
  /** How many creates take it; default: all that match, or the next one if nothing is to match. */
  count: z.int().min(1).optional(),
  script: jobScriptSchema,
});

/** Gives coming creates a script of their own. */
export type ScriptRule = z.input<typeof scriptRuleSchema>;

/** A create that took effect; a prompt of more than 4096 characters is cut. */
export interface CreateRecord {
  id: string;
  projectId: string;
  prompt: string;
  /** ISO 8601. */
  at: string;
}

/** A message that took effect. */
export interface MessageRecord extends Omit<CreateRecord, 'id'> {
  jobId: string;
}

interface Job {
  created: CreateRecord;
  life: JobLife;
  messages: MessageRecord[];
}

/** One line of the journal; times are milliseconds since 1970. */
type JournalEntry =
  | { type: 'create'; id: string; number: number; projectId: string; prompt: string; at: number; script?: JobScript }
  | { type: 'message'; id: string; prompt: string; at: number }
  | { type: 'set'; id: string; step: JobStep; at: number };

const MAX_PROMPT_CHARS = 4_096;

/** The jobs; what a method has done is in the journal when it returns. */
export class Jobs {
  readonly #jobs = new Map<string, Job>();
  readonly #now: () => number;
  readonly #journal: string | undefined;
  #rules: { rule: ScriptRule; left: number }[] = [];
  /** The script of the options, which a restarted sandbox is given again; other scripts go into the journal. */
  readonly #optionScript: JobScript;
  #defaultScript: JobScript;

  constructor(options: { now: () => number; script: JobScript; journal: string | undefined }) {
    this.#now = options.now;
    this.#optionScript = this.#defaultScript = options.script;
    this.#journal = options.journal;
    if (options.journal !== undefined) this.#replay(options.journal);
  }

  setDefaultScript(script: JobScript): void {
    this.#defaultScript = script;
  }

  addRule(rule: ScriptRule): void {
    const matchesAll = rule.promptIncludes === undefined && rule.projectId === undefined;
    this.#rules.push({ rule, left: rule.count ?? (matchesAll ? 1 : Infinity) });
  }

  create(projectId: string, prompt: string): object {
    const script = this.#takeScript(projectId, prompt);
    const number = this.#jobs.size + 1;
    const id = script.numericId ? String(number) : `job_${number}_${randomBytes(6).toString('hex')}`;
    const record = { type: 'create', id, number, projectId, prompt, at: this.#now() } as const;
    this.#record(script === this.#optionScript ? record : { ...record, script });
    return this.#jobs.get(id)!.life.show(this.#now(), false);
  }

  /** The job's record, or undefined if it does not exist. */
  get(projectId: string, id: string): object | undefined {
    return this.#find(projectId, id)?.life.show(this.#now(), true);
  }

  /** The record at the time of the message; the job reacts after its lag. */
  message(projectId: string, id: string, prompt: string): object | undefined {
    const job = this.#find(projectId, id);
    if (job) this.#record({ type: 'message', id, prompt, at: this.#now() });
    return job?.life.show(this.#now(), false);
  }

  set(id: string, step: JobStep): void {
    if (!this.#jobs.has(id)) throw new Error(`no job ${id}`);
    this.#record({ type: 'set', id, step, at: this.#now() });
  }

  creates(): CreateRecord[] {
    return [...this.#jobs.values()].map(({ created }) => created);
  }

  /** The messages of one job or of all, in order per job. */
  messages(jobId?: string): MessageRecord[] {
    const jobs = [...this.#jobs.values()].filter(({ created }) => jobId === undefined || created.id === jobId);
    return jobs.flatMap(({ messages }) => messages);
  }

  #find(projectId: string, id: string): Job | undefined {
    const job = this.#jobs.get(id);
    return job?.created.projectId === projectId ? job : undefined;
  }

  #takeScript(projectId: string, prompt: string): JobScript {
    const found = this.#rules.find(
      ({ rule, left }) =>
        left > 0 &&
        (rule.projectId === undefined || rule.projectId === projectId) &&
        (rule.promptIncludes === undefined || prompt.includes(rule.promptIncludes)),
    );
    if (found) found.left--;
    return found?.rule.script ?? this.#defaultScript;
  }

  /** Hands the entry to the operating system first, so it outlives a killed process (not a killed machine). */
  #record(entry: JournalEntry): void {
    if (this.#journal !== undefined) appendFileSync(this.#journal, `${JSON.stringify(entry)}\n`);
    this.#apply(entry);
  }

  #apply(entry: JournalEntry): void {
    const at = new Date(entry.at).toISOString();
    if (entry.type === 'create') {
      const { id, number, projectId, prompt, script = this.#optionScript } = entry;
      const life = new JobLife({ id: script.numericId ? number : id, number, createdAt: entry.at }, script);
      const created = { id, projectId, prompt: prompt.slice(0, MAX_PROMPT_CHARS), at };
      this.#jobs.set(id, { created, life, messages: [] });
      return;
    }
    const job = this.#jobs.get(entry.id);
    if (!job) return;
    if (entry.type === 'set') return job.life.fix(entry.step, entry.at);
    const { projectId } = job.created;
    job.messages.push({ jobId: entry.id, projectId, prompt: entry.prompt.slice(0, MAX_PROMPT_CHARS), at });
    job.life.message(entry.at);
  }

  /** Takes in each whole line of the journal and cuts a torn last one off. */
  #replay(path: string): void {
    mkdirSync(dirname(path), { recursive: true });
    if (!existsSync(path)) return;
    const bytes = readFileSync(path);
    const whole = bytes.lastIndexOf('\n') + 1;
    truncateSync(path, whole);
    for (let start = 0; start < whole;) {
      const end = bytes.indexOf('\n', start);
      this.#apply(JSON.parse(bytes.toString('utf8', start, end)) as JournalEntry);
      start = end + 1;
    }
  }
}
