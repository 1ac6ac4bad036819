import { createHash, randomBytes } from 'node:crypto';
import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import * as z from 'zod';
import type { SandboxClock } from './clock.js';
import { JobLife, jobScriptSchema, showStep, type JobScript, type JobStep } from './job-life.js';

export const scriptRuleSchema = z.strictObject({
  promptIncludes: z.string().optional(),
  projectId: z.string().optional(),
  /** How many creates take it; default: all that match, or the next one where nothing is to match. */
  count: z.int().min(1).optional(),
  script: jobScriptSchema,
});

/** Gives coming creates a script of their own. */
export type ScriptRule = z.input<typeof scriptRuleSchema>;

/** A recorded prompt: whole up to 4096 characters, else its beginning with the hash of the whole. */
interface PromptRecord {
  prompt: string;
  promptBytes: number;
  /** Hex, only where `prompt` is cut. */
  promptSha256?: string;
}

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
  script: JobScript;
  life: JobLife;
  hiddenReads: number;
  removed: boolean;
  messages: (PromptRecord & { at: number })[] | undefined;
}

/** All jobs of a sandbox, in memory and (where asked) in a journal. */
export class Jobs {
  readonly #jobs = new Map<string, Job>();
  readonly #clock: SandboxClock;
  readonly #journal: Journal;
  #rules: { rule: ScriptRule; left: number }[] = [];
  /** The option `script`, which a restarted sandbox knows again; other scripts go into the journal. */
  readonly #optionScript: JobScript;
  #defaultScript: JobScript;
  #messageCount = 0;

  constructor(options: { clock: SandboxClock; script: JobScript; dataFile: string | undefined }) {
    this.#clock = options.clock;
    this.#optionScript = this.#defaultScript = options.script;
    this.#journal = Journal.open(options.dataFile, (entry) => this.#apply(entry));
  }

  get size(): number {
    return this.#jobs.size;
  }

  get messagesTaken(): number {
    return this.#messageCount;
  }

  setDefaultScript(script: JobScript): void {
    this.#defaultScript = script;
  }

  addRule(rule: ScriptRule): void {
    const matchesAll = rule.promptIncludes === undefined && rule.projectId === undefined;
    this.#rules.push({ rule, left: rule.count ?? (matchesAll ? 1 : Infinity) });
  }

  /** Creates a job; it is in the journal when this returns. */
  create(projectId: string, prompt: string): object {
    const script = this.#takeScript(projectId, prompt);
    const number = this.#jobs.size + 1;
    const id = `job_${number}_${randomBytes(6).toString('hex')}`;
    const entry: JournalEntry = { type: 'create', id, number, projectId, prompt, at: this.#clock.now() };
    this.#journal.append(script === this.#optionScript ? entry : { ...entry, script });
    return this.#show(this.#add(entry, script), false);
  }

  /** The job's record, or undefined where it does not exist (yet). */
  get(projectId: string, id: string): object | undefined {
    const job = this.#find(projectId, id);
    return job && this.#show(job, true);
  }

  /** The record at the time of the message; the job reacts after its lag. */
  message(projectId: string, id: string, prompt: string): object | undefined {
    const job = this.#find(projectId, id);
    if (!job) return undefined;
    const entry: JournalEntry = { type: 'message', id, prompt, at: this.#clock.now() };
    this.#journal.append(entry);
    this.#apply(entry);
    return this.#show(job, false);
  }

  /** The present record by id alone, not counted as a read; undefined where there is no such job. */
  peek(id: string): object | undefined {
    const job = this.#jobs.get(id);
    return job && !job.removed ? this.#show(job, false) : undefined;
  }

  /** Puts a job into a state; false where there is no such job. */
  set(id: string, step: JobStep): boolean {
    return this.#record({ type: 'set', id, step, at: this.#clock.now() });
  }

  /** Removes a job: reads get a 404 from now on. */
  remove(id: string): boolean {
    return this.#record({ type: 'remove', id });
  }

  *creates(): Generator<CreateRecord> {
    for (const job of this.#jobs.values()) {
      yield { id: job.id, projectId: job.projectId, at: new Date(job.createdAt).toISOString(), ...promptOf(job) };
    }
  }

  /** Of one job or of all, in order per job. */
  *messages(jobId?: string): Generator<MessageRecord> {
    const only = jobId === undefined ? undefined : this.#jobs.get(jobId);
    if (jobId !== undefined && !only) return;
    for (const job of only ? [only] : this.#jobs.values()) {
      for (const { at, ...prompt } of job.messages ?? []) {
        yield { jobId: job.id, projectId: job.projectId, at: new Date(at).toISOString(), ...prompt };
      }
    }
  }

  close(): void {
    this.#journal.close();
  }

  #record(entry: JournalEntry): boolean {
    if (!this.#jobs.has(entry.id)) return false;
    this.#journal.append(entry);
    this.#apply(entry);
    return true;
  }

  #apply(entry: JournalEntry): void {
    if (entry.type === 'create') {
      this.#add(entry, entry.script ?? this.#defaultScript);
      return;
    }
    const job = this.#jobs.get(entry.id);
    if (!job) return;
    if (entry.type === 'message') this.#takeMessage(job, entry.prompt, entry.at);
    else if (entry.type === 'set') job.life.fix(entry.step, entry.at);
    else job.removed = true;
  }

  #add(entry: JournalEntry & { type: 'create' }, script: JobScript): Job {
    const { id, number, projectId, at } = entry;
    const job: Job = {
      ...recordPrompt(entry.prompt),
      id,
      number,
      projectId,
      createdAt: at,
      script,
      life: new JobLife(script, at),
      hiddenReads: script.notFoundReads ?? 0,
      removed: false,
      messages: undefined,
    };
    this.#jobs.set(id, job);
    return job;
  }

  #takeMessage(job: Job, prompt: string, at: number): void {
    (job.messages ??= []).push({ ...recordPrompt(prompt), at });
    this.#messageCount++;
    job.life.message(at);
  }

  #takeScript(projectId: string, prompt: string): JobScript {
    const found = this.#rules.find(
      ({ rule, left }) =>
        left > 0 &&
        (rule.projectId === undefined || rule.projectId === projectId) &&
        (rule.promptIncludes === undefined || prompt.includes(rule.promptIncludes)),
    );
    if (!found) return this.#defaultScript;
    if (--found.left === 0) this.#rules = this.#rules.filter((entry) => entry !== found);
    return found.rule.script;
  }

  #find(projectId: string, id: string): Job | undefined {
    const job = this.#jobs.get(id);
    if (!job || job.projectId !== projectId || job.removed) return undefined;
    if (this.#clock.now() - job.createdAt < (job.script.notFoundMs ?? 0)) return undefined;
    return job.hiddenReads-- > 0 ? undefined : job;
  }

  #show(job: Job, counted: boolean): object {
    const { step, since } = job.life.look(this.#clock.now(), counted);
    return showStep(step, job, since);
  }
}

function promptOf({ prompt, promptBytes, promptSha256 }: PromptRecord): PromptRecord {
  return promptSha256 === undefined ? { prompt, promptBytes } : { prompt, promptBytes, promptSha256 };
}

const MAX_PROMPT_CHARS = 4_096;

function recordPrompt(prompt: string): PromptRecord {
  const promptBytes = Buffer.byteLength(prompt);
  if (prompt.length <= MAX_PROMPT_CHARS) return { prompt, promptBytes };
  const promptSha256 = createHash('sha256').update(prompt).digest('hex');
  return { prompt: prompt.slice(0, MAX_PROMPT_CHARS), promptBytes, promptSha256 };
}

/** One line of the journal; times are milliseconds since 1970. */
type JournalEntry =
  | { type: 'create'; id: string; number: number; projectId: string; prompt: string; at: number; script?: JobScript }
  | { type: 'message'; id: string; prompt: string; at: number }
  | { type: 'set'; id: string; step: JobStep; at: number }
  | { type: 'remove'; id: string };

/**
 * An append-only file of JSON lines. A line has been handed to the operating system when `append` returns, so it
 * outlives a killed process (not a killed machine).
 */
class Journal {
  #file: number | undefined;

  private constructor(file: number | undefined) {
    this.#file = file;
  }

  /** Opens the journal, replays each whole line and truncates a torn last one; without a path nothing is stored. */
  static open(path: string | undefined, replay: (entry: JournalEntry) => void): Journal {
    if (path === undefined) return new Journal(undefined);
    mkdirSync(dirname(path), { recursive: true });
    const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    const whole = bytes.lastIndexOf(0x0a) + 1;
    for (let start = 0; start < whole;) {
      const end = bytes.indexOf(0x0a, start);
      replay(JSON.parse(bytes.toString('utf8', start, end)) as JournalEntry);
      start = end + 1;
    }
    const file = openSync(path, 'a');
    ftruncateSync(file, whole);
    return new Journal(file);
  }

  append(entry: JournalEntry): void {
    if (this.#file !== undefined) writeSync(this.#file, `${JSON.stringify(entry)}\n`);
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    // A late write must not use a descriptor number that another file has been given.
    this.#file = undefined;
  }
}
