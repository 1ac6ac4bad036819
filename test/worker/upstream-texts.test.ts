/** What an upstream says in its own words, which may repeat a prompt: in no log line, and hidden if prompts are. */
import { randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import type { FaultRule } from '../../src/testing.js';
import { useSystem } from '../e2e/system.js';
import { textIn } from '../support/text-in.js';
import { until } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';

const WORD = `zeugma${randomBytes(6).toString('hex')}`;
const PROMPT = `Tell ${WORD} to nobody`;
const ERROR = { error: `not today: "${PROMPT}"`, details: [{ message: PROMPT }] };
const PAGE = `<title>Blocked ${WORD}</title>`;
const LEAK = new RegExp(`${WORD}|not today`);
const EXPORT = { projectId: 'analysed', dateFrom: '2026-01-01', dateTo: '2026-01-02' };

const system = useSystem({ script: { activeMs: 600_000 } });
const { server, sandbox } = system;

/** The faults that a job of each project meets, and its outcome then, or what it waits for. */
const CASES: Record<string, { faults: Partial<FaultRule>[]; becomes: string; options?: object }> = {
  rejected: { faults: [{ status: 400 }], becomes: 'CreateRejected' },
  'without-key': { faults: [{ status: 401, count: 100 }], becomes: 'key' },
  throttled: { faults: [{ status: 429, retryAfter: '600', count: 100 }], becomes: 'rateLimit' },
  page: {
    faults: [{ status: 403, body: PAGE, headers: { 'content-type': 'text/html' }, count: 100 }],
    becomes: 'upstream',
  },
  located: { faults: [{ status: 202, body: '', headers: { location: `/tasks/${WORD}` } }], becomes: 'person' },
  'in-doubt': { faults: [{ status: 500 }], becomes: 'person' },
  unreadable: { faults: [{ status: 201, body: `{"id": "${PROMPT}` }], becomes: 'person' },
  'rejected-later': {
    faults: [{ status: 500 }, { status: 400 }],
    becomes: 'UnknownOutcome',
    options: { onUnknownOutcome: 'retry' },
  },
  messages: {
    faults: [
      { operation: 'message', status: 422 },
      { operation: 'get', status: 404 },
    ],
    becomes: 'poll',
  },
};

/** Runs a job of each case; returns all that a caller and the web UI are shown of them. */
async function runCases(jobs: AgentJobs, kind: string, output: () => string) {
  const runs = Object.entries(CASES).map(async ([name, { faults, becomes, options }]) => {
    const projectId = `${name}-${kind}`;
    for (const fault of faults)
      await sandbox.addFault({ kind: 'status', operation: 'create', body: ERROR, projectId, ...fault } as FaultRule);
    const job = await jobs.start({ projectId, key: 'one', prompt: PROMPT, ...options });
    if (name === 'messages') await job.sendFollowUp(PROMPT, { id: 'more' });
    const hasCome = async () => {
      const { outcome, waiting } = await job.state();
      return (outcome ?? waiting?.for) === becomes;
    };
    await until(hasCome, `${projectId} to become ${becomes}`, output);
    const state = await job.state();
    const failure: unknown = state.outcome === null ? null : await job.result().catch((error: unknown) => error);
    const handle = server.client.workflow.getHandle(job.workflowId);
    const page = await handle.query<object>('__temporal_workflow_metadata');
    const cause = failure instanceof Error ? failure.cause : null;
    const text = [state, failure, cause, (await handle.describe()).raw, page].map(textIn).join('\n');
    return [name, { state, failure, text }] as const;
  });
  return Object.fromEntries(await Promise.all(runs));
}

test('no text of the upstream is in a log line, and none is shown where prompts are hidden', async () => {
  const { client, taskQueue } = server;
  const worker = system.startWorker({ SNAPSHOTS_URL: pathToFileURL(newFolder()).href, LOG_LEVEL: 'trace' });
  const shown = await runCases(new AgentJobs({ client, taskQueue }), 'shown', worker.output);
  expect(shown['rejected']!.failure).toMatchObject({ status: 400, error: expect.stringContaining(WORD) });
  expect(shown['messages']!.state.followUps[0]!.error).toContain('422: not today');
  expect(shown['page']!.state.waiting?.reason).toBe(`a page instead of an answer: 403 Blocked ${WORD}`);
  expect(shown['located']!.state.unknown?.reason).toMatch(new RegExp(`; Location: http.*/tasks/${WORD}$`));
  const hiding = new AgentJobs({ client, taskQueue, hidePrompts: true });
  const hidden = await runCases(hiding, 'hidden', worker.output);
  expect(hidden['rejected']!.failure).toMatchObject({ status: 400, error: '' });
  expect(hidden['messages']!.state.followUps).toEqual([{ id: 'more', state: 'rejected', error: '422' }]);
  for (const [name, { text }] of Object.entries(hidden)) expect(text, name).not.toMatch(LEAK);

  await sandbox.addFault({ kind: 'status', operation: 'visitors', status: 400, body: ERROR });
  const rejectedExport = client.workflow.execute('visitorExport', {
    taskQueue,
    workflowId: `export-rejected/${taskQueue}`,
    args: [EXPORT],
  });
  await expect(rejectedExport).rejects.toThrow();
  await worker.wrote('upstream answered 400 (visitors');
  const lines = worker.output().split('\n');
  const decoded = (line: string) => (line.match(/[\w+/=]{24,}/g) ?? []).map((text) => Buffer.from(text, 'base64'));
  const leaks = lines.filter((line) => LEAK.test([line, ...decoded(line)].join('\n')));
  expect(leaks.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([]);
});
