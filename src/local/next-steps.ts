import { DEFAULT_TASK_QUEUE, encodeId } from '../contract.js';

export interface NextStepsOptions {
  address: string;
  taskQueue: string;
  /** The demo job; undefined where jobs are real. */
  workflowId?: string | undefined;
  /** Where exports put their snapshots. */
  snapshotsUrl: string;
  /** Settings of the user's shell that would lead the commands to another server. */
  unset: readonly string[];
  /** An empty Temporal profile, for a user who has one that leads elsewhere. */
  profileFile?: string | undefined;
}

/** Commands to try next, each one line that runs as it is from the project's folder. */
export function nextSteps(options: NextStepsOptions): string[] {
  const { address, taskQueue, workflowId, snapshotsUrl, unset, profileFile } = options;
  const profile = profileFile === undefined ? [] : [`TEMPORAL_CONFIG_FILE=${quote(profileFile)}`];
  const changes = [...unset.map((name) => `-u ${name}`), ...profile];
  const prefix = changes.length > 0 ? `env ${changes.join(' ')} ` : '';
  const queue = taskQueue === DEFAULT_TASK_QUEUE ? '' : ` --task-queue ${quote(taskQueue)}`;
  const place = `--address ${address}${queue}`;
  const cli = (command: string) => `${prefix}npx agent-jobs ${command} ${place}`;
  const project = workflowId === undefined ? 'YOUR_PROJECT_ID' : 'demo';
  return [
    cli(`start 'Add a page about pricing' --project ${project} --wait`),
    ...(workflowId === undefined
      ? [cli('list')]
      : [
          cli(`follow-up ${quote(workflowId)} 'Now in French, too' --wait`),
          cli(`state ${quote(workflowId)}`),
          cli('list'),
        ]),
    cli(`export run --project ${project}`),
    `npx agent-jobs report --project ${project} --snapshots ${quote(snapshotsUrl)}`,
    `python3 -m pip install temporalio && ${prefix}python3 examples/start_job.py --project ${project} ${place}`,
  ];
}

/** The page of exactly this run in Temporal's web UI. */
export function workflowPage(uiUrl: string, namespace: string, workflowId: string, runId: string): string {
  return `${uiUrl}/namespaces/${encodeId(namespace)}/workflows/${encodeURIComponent(workflowId)}/${runId}/history`;
}

function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
