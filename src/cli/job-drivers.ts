/** Which workflow has an upstream's job already: two would watch it side by side, and nothing can undo that. */
import type { AgentJobs } from '../starter.js';
import type { Resolution } from './resolution.js';

/** So many of a project's running jobs are looked at: some seconds' work. */
const MAX_JOBS = 20_000;

/** The running workflows of projects by their job's id, read once for a command. */
export class JobDrivers {
  readonly #jobs: AgentJobs;
  readonly #signal: AbortSignal;
  readonly #byProject = new Map<string, Promise<Map<string, string>>>();

  constructor({ jobs, signal }: { jobs: AgentJobs; signal: AbortSignal }) {
    this.#jobs = jobs;
    this.#signal = signal;
  }

  /** Throws where another workflow that runs has the job. */
  async check({ workflowId, projectId, jobId }: Adoption): Promise<void> {
    const other = (await this.#of(projectId)).get(jobId) ?? workflowId;
    if (other === workflowId) return;
    const why = `the workflow ${other} has the job ${jobId} already, and two would watch it side by side for good`;
    throw new Error(`${why}: look again, or give --yes`);
  }

  /** The list may lag behind what this command has done. */
  async add({ workflowId, projectId, jobId }: Adoption): Promise<void> {
    (await this.#of(projectId)).set(jobId, workflowId);
  }

  #of(projectId: string): Promise<Map<string, string>> {
    const read = this.#byProject.get(projectId) ?? this.#read(projectId);
    this.#byProject.set(projectId, read);
    return read;
  }

  async #read(projectId: string): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    let looks = 0;
    for await (const job of this.#jobs.list({ projectId, isRunning: true }, { signal: this.#signal })) {
      this.#signal.throwIfAborted();
      if (job.jobId !== null) found.set(job.jobId, job.workflowId);
      if (++looks === MAX_JOBS) break;
    }
    return found;
  }
}

/** Null for another decision. */
export function adoptionOf(resolution: Resolution, projectId: string): Adoption | null {
  const { workflowId } = resolution;
  return resolution.action === 'adopt' ? { workflowId, projectId, jobId: resolution.jobId } : null;
}

/** A workflow that is to adopt a job. */
interface Adoption {
  workflowId: string;
  projectId: string;
  jobId: string;
}
