import { randomBytes } from 'node:crypto';
import * as z from 'zod';
import type { SandboxClock } from './clock.js';
import { JobLife } from './job-life.js';
import type { JobPlan, JobScript, JobStep } from './job-script.js';
import { jobScriptSchema, planJob, showStep } from './job-script.js';
import { Journal } from './journal.js';
import type { JournalEntry } from './journal.js';
import type { PromptRecord } from './prompt-record.js';
import { recordPrompt } from './prompt-record.js';

export const scriptRuleSchema = z.strictObject({
  promptIncludes: z.string().optional(),
  projectId: z.string().optional(),
  /** How many creates take it; default: all that match, or the next one where nothing is to match. */
  count: z.int().min(1).optional(),
  script: jobScriptSchema,
});

/** Gives coming creates a script of their own. */
export type ScriptRule = z.input<typeof scriptRuleSchema>;

/** A create that took effect. */
export interface CreateRecord extends PromptRecord {
  id: string;
  projectId: string;
  /** ISO 8601. */
  at: string;
}

/** A message that took effect. */
export interface MessageRecord extends PromptRecord {
  jobId: string;
  projectId: string;
  at: string;
}

interface Job extends PromptRecord {
  id: string;
  number: number;
  projectId: string;
  createdAt: number;
  plan: JobPlan;
  life: JobLife;
  hiddenReads: number;
  removed: boolean;
  messages: (PromptRecord & { at: number })[] | undefined;
}

/** All jobs of a sandbox, in memory and (where asked) in a journal. */
export class Jobs {
  private readonly jobs = new Map<string, Job>();
  private readonly clock: SandboxClock;
  private readonly journal: Journal;
  private rules: { rule: ScriptRule; plan: JobPlan; left: number }[] = [];
  /** The plan of the option `script`, which a restarted sandbox knows again; other scripts go into the journal. */
  private readonly optionPlan: JobPlan;
  private defaultPlan: JobPlan;
  private messageCount = 0;

  constructor(options: { clock: SandboxClock; script: JobScript; dataFile: string | undefined }) {
    this.clock = options.clock;
    this.optionPlan = this.defaultPlan = planJob(options.script);
    this.journal = Journal.open(options.dataFile, (entry) => this.apply(entry));
  }

  get size(): number {
    return this.jobs.size;
  }

  get messagesTaken(): number {
    return this.messageCount;
  }

  setDefaultScript(script: JobScript): void {
    this.defaultPlan = planJob(script);
  }

  addRule(rule: ScriptRule): void {
    const matchesAll = rule.promptIncludes === undefined && rule.projectId === undefined;
    this.rules.push({ rule, plan: planJob(rule.script), left: rule.count ?? (matchesAll ? 1 : Infinity) });
  }

  /** Creates a job; it is in the journal when this returns. */
  create(projectId: string, prompt: string): object {
    const plan = this.takePlan(projectId, prompt);
    const number = this.jobs.size + 1;
    const id = `job_${number}_${randomBytes(6).toString('hex')}`;
    const entry: JournalEntry = { type: 'create', id, number, projectId, prompt, at: this.clock.now() };
    this.journal.append(plan === this.optionPlan ? entry : { ...entry, script: plan.script });
    const job = this.add(entry, plan);
    return this.show(job, false);
  }

  /** The job's record, or undefined where it does not exist (yet). */
  get(projectId: string, id: string): object | undefined {
    const job = this.find(projectId, id);
    return job && this.show(job, true);
  }

  /** The record as it stands when the message is taken; the job takes it up after its lag. */
  message(projectId: string, id: string, prompt: string): object | undefined {
    const job = this.find(projectId, id);
    if (!job) return undefined;
    const entry: JournalEntry = { type: 'message', id, prompt, at: this.clock.now() };
    this.journal.append(entry);
    this.apply(entry);
    return this.show(job, false);
  }

  /** The present record by id alone, not counted as a read; undefined where there is no such job. */
  peek(id: string): object | undefined {
    const job = this.jobs.get(id);
    return job && !job.removed ? this.show(job, false) : undefined;
  }

  /** Puts a job into a state; false where there is no such job. */
  set(id: string, step: JobStep): boolean {
    return this.record({ type: 'set', id, step, at: this.clock.now() });
  }

  /** Makes a job answer 404 from now on. */
  remove(id: string): boolean {
    return this.record({ type: 'remove', id });
  }

  *creates(): Generator<CreateRecord> {
    for (const job of this.jobs.values()) {
      yield { id: job.id, projectId: job.projectId, at: new Date(job.createdAt).toISOString(), ...promptOf(job) };
    }
  }

  /** Of one job or of all, in the order taken per job. */
  *messages(jobId?: string): Generator<MessageRecord> {
    const only = jobId === undefined ? undefined : this.jobs.get(jobId);
    if (jobId !== undefined && !only) return;
    for (const job of only ? [only] : this.jobs.values()) {
      for (const { at, ...prompt } of job.messages ?? []) {
        yield { jobId: job.id, projectId: job.projectId, at: new Date(at).toISOString(), ...prompt };
      }
    }
  }

  close(): void {
    this.journal.close();
  }

  private record(entry: JournalEntry): boolean {
    if (!this.jobs.has(entry.id)) return false;
    this.journal.append(entry);
    this.apply(entry);
    return true;
  }

  private apply(entry: JournalEntry): void {
    if (entry.type === 'create') {
      this.add(entry, entry.script ? planJob(entry.script) : this.defaultPlan);
      return;
    }
    const job = this.jobs.get(entry.id);
    if (!job) return;
    if (entry.type === 'message') this.takeMessage(job, entry.prompt, entry.at);
    else if (entry.type === 'set') job.life.fix(entry.step, entry.at);
    else job.removed = true;
  }

  private add(entry: JournalEntry & { type: 'create' }, plan: JobPlan): Job {
    const { id, number, projectId, at } = entry;
    const job: Job = {
      ...recordPrompt(entry.prompt),
      id,
      number,
      projectId,
      createdAt: at,
      plan,
      life: new JobLife(plan.steps, at),
      hiddenReads: plan.script.notFoundReads ?? 0,
      removed: false,
      messages: undefined,
    };
    this.jobs.set(id, job);
    return job;
  }

  private takeMessage(job: Job, prompt: string, at: number): void {
    (job.messages ??= []).push({ ...recordPrompt(prompt), at });
    this.messageCount++;
    if (job.plan.followUpSteps) job.life.restartAt(at + job.plan.messageLagMs, job.plan.followUpSteps);
  }

  private takePlan(projectId: string, prompt: string): JobPlan {
    const found = this.rules.find(
      ({ rule, left }) =>
        left > 0 &&
        (rule.projectId === undefined || rule.projectId === projectId) &&
        (rule.promptIncludes === undefined || prompt.includes(rule.promptIncludes)),
    );
    if (!found) return this.defaultPlan;
    if (--found.left === 0) this.rules = this.rules.filter((entry) => entry !== found);
    return found.plan;
  }

  private find(projectId: string, id: string): Job | undefined {
    const job = this.jobs.get(id);
    if (!job || job.projectId !== projectId || job.removed) return undefined;
    if (this.clock.now() - job.createdAt < (job.plan.script.notFoundMs ?? 0)) return undefined;
    return job.hiddenReads-- > 0 ? undefined : job;
  }

  private show(job: Job, counted: boolean): object {
    const { step, since } = job.life.look(this.clock.now(), counted);
    return showStep(step, job, since);
  }
}

function promptOf({ prompt, promptBytes, promptSha256 }: PromptRecord): PromptRecord {
  return promptSha256 === undefined ? { prompt, promptBytes } : { prompt, promptBytes, promptSha256 };
}
