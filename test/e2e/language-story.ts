/** The story that the examples in TypeScript and Python tell: what the upstream does in it, and what comes of it. */
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import { inputHash } from '../../src/agent-job/input.js';
import { until } from '../support/worker-process.js';
import type { usePrivateSystem } from './system.js';

type System = ReturnType<typeof usePrivateSystem>;

const PROMPT = 'Schreib «Grüße» 🐍\n';

/** Arms the upstream: each job of the story has the name of its end as prompt. */
export async function prepareStory({ sandbox }: System, projectId: string): Promise<void> {
  const job = (promptIncludes: string) => ({ projectId, promptIncludes });
  const active = { steps: [{ status: 'active' }] };
  await sandbox.addScript({ ...job('archived'), script: { steps: [{ status: 'archived' }] } });
  await sandbox.addScript({ ...job('failed'), script: { steps: [{ status: 'failed' }] } });
  for (const end of ['timedOut', 'Canceled', 'Terminated']) await sandbox.addScript({ ...job(end), script: active });
  const create = { operation: 'create', effect: 'after', count: 1 } as const;
  await sandbox.addFault({ kind: 'reset', ...job('abandoned'), ...create });
  await sandbox.addFault({ kind: 'reset', ...job('UnknownOutcome'), ...create });
  await sandbox.addFault({ kind: 'status', status: 400, ...job('CreateRejected'), ...create, effect: 'before' });
}

const JOBS = ['archived', 'failed', 'timedOut', 'abandoned', 'InvalidInput', 'CreateRejected', 'UnknownOutcome'];

function workflowIdOf(projectId: string): string {
  return `agent-job/${projectId}/a%20%28ticket%29%2F1:2`;
}

/** The program of the client's page in a language, for the file's own server and task queue. */
export async function pageProgram({ server }: System, language: string, contains: string): Promise<string> {
  const page = await readFile(new URL('../../docs/client.md', import.meta.url), 'utf8');
  const blocks = [...page.matchAll(/```(\w+)\n([\s\S]*?)```/g)];
  const program = blocks.find(([, of, text]) => of === language && text!.includes(contains))?.[2];
  if (!program) throw new Error(`docs/client.md has no ${language} with "${contains}"`);
  return program.replace('127.0.0.1:7233', server.address).replace('"agent-jobs"', `"${server.taskQueue}"`);
}

/** What is upstream and in Temporal of the page's job, which each language starts under one key: once, steered once. */
export async function pageTraces({ sandbox, server }: System): Promise<object> {
  const [create, ...others] = await sandbox.creates({ projectId: 'acme' });
  const messages = await sandbox.messages({ jobId: create?.id });
  const { memo } = await server.client.workflow.getHandle('agent-job/acme/ticket-4711').describe();
  const sent = { projectId: 'acme', prompt: create?.prompt ?? '' };
  return {
    others,
    messages: messages.map(({ prompt }) => prompt),
    isHashRight: memo?.['inputHash'] === inputHash(sent),
  };
}

export const PAGE_TRACES = { others: [], messages: ['And add a test'], isHashRight: true };

/** What the program printed, line by line. */
export function readSteps(printed: string): unknown[] {
  const lines = printed.trim().split('\n');
  return lines.map((line) => JSON.parse(line) as unknown);
}

/** In any order. */
function usedIds(...ids: string[]): unknown {
  return expect.toSatisfy((given: string[]) => isDeepStrictEqual(given.toSorted(), ids.toSorted()));
}

/** What it has to print. */
export async function expectedSteps({ sandbox }: System, projectId: string): Promise<unknown[]> {
  const workflowId = workflowIdOf(projectId);
  const [create] = await sandbox.creates({ projectId, promptIncludes: PROMPT });
  const jobId = create?.id;
  return [
    { step: 'started', workflowId, isNew: true },
    { step: 'repeated while it runs', workflowId, isNew: false },
    { step: 'another prompt conflicts' },
    { step: 'follow-up said twice', states: ['sent', 'sent'] },
    { step: 'state while it waits', phase: 'watching', waitsFor: expect.stringMatching(/^(poll|settle)$/), jobId },
    { step: 'ended', outcome: 'completed', prLink: expect.stringMatching(/^https:/), jobId },
    { step: 'repeated after its end', workflowId, isNew: false },
    { step: 'used id after the end', state: 'sent' },
    { step: 'follow-up after the end', states: ['sent', 'sent'] },
    { step: 'ended again', outcome: 'completed', jobId, usedIds: usedIds('test', 'docs'), sawWork: true, links: 1 },
    { step: 'ended once more', state: 'sent', outcome: 'completed', usedIds: usedIds('test', 'docs', 'last') },
    { step: 'repeated after all', isNew: false },
    { step: 'follow-up after a cancel', ended: 'Canceled', state: 'sent', outcome: 'completed' },
    ...[...JOBS, 'Terminated'].map((end) => ({ step: 'each end', expected: end, found: end })),
    { step: 'rejected create starts again', outcomes: Array.from({ length: 5 }, () => 'completed') },
  ];
}

/** What came of the story's own job upstream and in Temporal, its runs from the first to the last. */
export async function readTraces({ sandbox, server }: System, projectId: string): Promise<object> {
  const creates = await sandbox.creates({ projectId, promptIncludes: PROMPT });
  const messages = await sandbox.messages({ jobId: creates[0]?.id });
  const workflowId = workflowIdOf(projectId);
  const { runId: newest } = await server.client.workflow.getHandle(workflowId).describe();
  const readAll = () => readRuns(server.client, workflowId);
  // Visibility lags behind.
  await until(async () => (await readAll()).some(({ runId }) => runId === newest), 'the list to show the newest run');
  const runs = await readAll();
  const again = await sandbox.creates({ projectId, promptIncludes: 'Another prompt' });
  return {
    creates: creates.length,
    createsAfterRejection: again.length,
    messages: messages.map(({ prompt }) => prompt),
    hashes: runs.map(({ hash }) => hash),
    // A repeated start or a signal would have left one in the first run.
    optionsUpdates: runs[0]?.events.filter((event) => /OptionsUpdated|Signaled/.test(event)),
    followedRuns: runs.map(({ requestIds }) =>
      runs.flatMap(({ runId }, index) => (requestIds.includes(`agent-jobs/after/${runId}`) ? [index] : [])),
    ),
  };
}

async function readRuns({ workflow }: System['server']['client'], workflowId: string) {
  const runs = [];
  for await (const { runId, startTime } of workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const handle = workflow.getHandle(workflowId, runId);
    const { memo, raw } = await handle.describe();
    const { events } = await handle.fetchHistory();
    runs.push({
      runId,
      startTime,
      hash: memo?.['inputHash'],
      events: (events ?? []).flatMap((event) => Object.keys(event)),
      requestIds: Object.keys(raw.workflowExtendedInfo?.requestIdInfos ?? {}),
    });
  }
  return runs.toSorted((a, b) => a.startTime.getTime() - b.startTime.getTime());
}

/** One create, each message once, and one run for each end; each run knows the ids of starts after those before it. */
export function expectedTraces(projectId: string): object {
  const hash = inputHash({ projectId, prompt: PROMPT });
  return {
    creates: 1,
    createsAfterRejection: 1,
    messages: ['Add a test', 'Add docs', 'One more'],
    hashes: [hash, hash, hash],
    optionsUpdates: [],
    followedRuns: [[], [0], [0, 1]],
  };
}
