/** Which workflow has an upstream's job already, told before a decision is confirmed or only tried. */
import type { AgentJobs } from '../starter.js';
import type { Resolution } from './resolution.js';

/** The workflows that have the jobs of a command's adoptions. */
export class JobDrivers {
  readonly #jobs: AgentJobs;
  readonly #signal: AbortSignal;
  /** What this command has done: the list may lag behind it. */
  readonly #adopted = new Map<string, string>();

  constructor({ jobs, signal }: { jobs: AgentJobs; signal: AbortSignal }) {
    this.#jobs = jobs;
    this.#signal = signal;
  }

  /** Throws where another workflow has the job, or had it. */
  async check(adoption: Adoption): Promise<void> {
    const other = this.#adopted.get(nameOf(adoption)) ?? (await this.#listed(adoption));
    if (other === undefined || other === adoption.workflowId) return;
    const why = `the workflow ${other} has the job ${adoption.jobId} already`;
    throw new Error(`${why}: look again, or adopt it with --force`);
  }

  add(adoption: Adoption): void {
    this.#adopted.set(nameOf(adoption), adoption.workflowId);
  }

  async #listed({ workflowId, projectId, jobId }: Adoption): Promise<string | undefined> {
    for await (const job of this.#jobs.list({ projectId, jobId }, { signal: this.#signal })) {
      if (job.workflowId !== workflowId) return job.workflowId;
    }
    return undefined;
  }
}

function nameOf({ projectId, jobId }: Adoption): string {
  return JSON.stringify([projectId, jobId]);
}

/** Null for another decision, and where it is forced. */
export function adoptionOf(resolution: Resolution, projectId: string): Adoption | null {
  if (resolution.action !== 'adopt' || resolution.force === true) return null;
  const { workflowId, jobId } = resolution;
  return { workflowId, projectId, jobId };
}

/** A workflow that is to adopt a job. */
interface Adoption {
  workflowId: string;
  projectId: string;
  jobId: string;
}
