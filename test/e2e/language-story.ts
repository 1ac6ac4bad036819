/** The story that the examples of all languages tell: what the upstream does in it, and what has to come of it. */
import { expect } from 'vitest';
import { inputHash } from '../../src/agent-job/input.js';
import type { usePrivateSystem } from './system.js';

type System = ReturnType<typeof usePrivateSystem>;

const PROMPT = 'Schreib «Grüße» 🐍\n';
const FOREVER_MS = 1e9;

/** Arms the upstream: each job of the story has the name of its end as prompt. */
export async function prepareStory({ sandbox }: System, projectId: string): Promise<void> {
  const job = (promptIncludes: string) => ({ projectId, promptIncludes });
  const active = { steps: [{ status: 'active' }] };
  await sandbox.addScript({ ...job('archived'), script: { steps: [{ status: 'archived' }] } });
  await sandbox.addScript({ ...job('failed'), script: { steps: [{ status: 'failed' }] } });
  for (const end of ['timedOut', 'Canceled', 'Terminated']) await sandbox.addScript({ ...job(end), script: active });
  await sandbox.addScript({ ...job('lost'), script: { notFoundMs: FOREVER_MS } });
  const create = { operation: 'create', effect: 'after', count: 1 } as const;
  await sandbox.addFault({ kind: 'reset', ...job('abandoned'), ...create });
  await sandbox.addFault({ kind: 'reset', ...job('UnknownOutcome'), ...create });
  await sandbox.addFault({ kind: 'status', status: 400, ...job('CreateRejected'), ...create, effect: 'before' });
}

const ENDS = [
  ...['archived', 'failed', 'timedOut', 'abandoned', 'InvalidInput', 'CreateRejected', 'UnknownOutcome', 'lost'],
  ...['Canceled', 'Terminated'],
];

function workflowIdOf(projectId: string): string {
  return `agent-job/${projectId}/a%20%28ticket%29%2F1`;
}

/** What the program printed, line by line. */
export function readSteps(printed: string): unknown[] {
  const lines = printed.trim().split('\n');
  return lines.map((line) => JSON.parse(line) as unknown);
}

/** What it has to print. */
export async function expectedSteps({ sandbox }: System, projectId: string): Promise<unknown[]> {
  const workflowId = workflowIdOf(projectId);
  const [create] = await sandbox.creates({ projectId, promptIncludes: PROMPT });
  const jobId = create?.id;
  return [
    { step: 'started', workflowId, isNew: true },
    { step: 'repeated while it runs', workflowId, isNew: false },
    { step: 'another prompt refused' },
    { step: 'follow-up said twice', states: ['sent', 'sent'] },
    { step: 'state while it waits', phase: 'watching', waitsFor: expect.stringMatching(/^(poll|settle)$/), jobId },
    { step: 'ended', outcome: 'completed', prLink: expect.stringMatching(/^https:/), jobId },
    { step: 'repeated after its end', workflowId, isNew: false },
    { step: 'used id after the end', state: 'sent' },
    { step: 'follow-up after the end', states: ['sent', 'sent'] },
    { step: 'ended again', outcome: 'completed', jobId, usedIds: ['test', 'docs'] },
    { step: 'repeated after all', isNew: false },
    ...ENDS.map((end) => ({ step: 'told apart', expected: end, told: end })),
    { step: 'refused key starts again', isNew: true, outcome: 'completed' },
  ];
}

/** What came of the story's own job upstream and in Temporal. */
export async function readTraces({ sandbox, server }: System, projectId: string): Promise<object> {
  const creates = await sandbox.creates({ projectId, promptIncludes: PROMPT });
  const messages = await sandbox.messages({ jobId: creates[0]?.id });
  const { workflow } = server.client;
  const workflowId = workflowIdOf(projectId);
  const hashes: unknown[] = [];
  const events = new Set<string>();
  for await (const { runId } of workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const handle = workflow.getHandle(workflowId, runId);
    hashes.push((await handle.describe()).memo?.['inputHash']);
    const history = await handle.fetchHistory();
    for (const event of history.events ?? []) for (const name of Object.keys(event)) events.add(name);
  }
  return {
    creates: creates.length,
    messages: messages.map(({ prompt }) => prompt),
    hashes,
    ofRepeatedStarts: [...events].filter((name) => /OptionsUpdated|Signaled/.test(name)),
  };
}

/** One create, each message once, one run and another for the follow-up after its end; the rest left no event. */
export function expectedTraces(projectId: string): object {
  const hash = inputHash({ projectId, prompt: PROMPT });
  return { creates: 1, messages: ['Add a test', 'Add docs'], hashes: [hash, hash], ofRepeatedStarts: [] };
}
