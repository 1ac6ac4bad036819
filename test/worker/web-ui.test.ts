import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  encodeId,
  followUpSignal,
  jobStateQuery,
  LIMIT,
  pollNowSignal,
  resolveUnknownUpdate,
  type AgentJobInput,
} from '../../src/contract.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { begin } from '../../src/exports/range-transitions.js';
import { rangeDetails, rangeTitle } from '../../src/workflows/visitor-export/range-shown.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import { startJobBench } from '../support/job-bench.js';
import { inDoubt, rejected } from '../support/outcomes.js';
import { ObservedUpstream } from '../support/observed-upstream.js';
import { useForFile } from '../support/use.js';
import { asRead, renderedMarkdown, tagsIn, textIn } from './web-ui.js';

const server = useForFile(() => connectPrivateDevServer({ ui: true }));

const rendered = (markdown: string) => renderedMarkdown(server.uiUrl!, markdown);

/** What Markdown, HTML, links and the web UI's own placeholders are made of. */
const PARTS = [
  ...['<img src=x onerror=alert(1)>', '<style>*{display:none}</style>', '<script>', '</script>', '<!--', '-->', '</p>'],
  ...['<a href="/x">/x</a>', '[x](javascript:alert(1))', '![x](http://a.b/c)', '[a]: http://a.b', '[^1]:', '^[x]'],
  ...'http://a.example/b https://a.example HTTPS://a.b ftp://a.b mailto:a@b.c www.a.b file:///etc'.split(' '),
  ...'* ** _ __ ` ``` ~~ ~~~ $ $$ # === --- -- | |-|-| {#id} {workflowId} {namespace} \\ / 1/2 (c) (tm)'.split(' '),
  ...['> ', '- ', '+ ', '1. ', '2) ', ': ', '&lt;', '&#60;', '&amp;', '&', ' '],
  ...'< > [ ] ( ) ! { } " \' . , ; : \t \u0000 a snake_case é 😀'.split(' '),
];
const hostile = fc
  .array(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...PARTS) }, fc.string({ maxLength: 4, unit: 'grapheme' })), {
    minLength: 1,
    maxLength: 12,
  })
  .map((parts) => parts.join(''))
  .filter((text) => text.trim() !== '');
const RUNS = { numRuns: 80, endOnFailure: true };

const jobOf = (input: Partial<AgentJobInput>) =>
  agentJobStartOptions({ projectId: 'p', ...input } as AgentJobInput, { key: 'k' });

describe('text from outside in the web UI', () => {
  test('acts as nothing in a job’s summary, and reads as it was written', async () => {
    const check = async (prompt: string) => {
      const { staticSummary } = jobOf({ prompt });
      expect(Buffer.byteLength(staticSummary)).toBeLessThanOrEqual(200);
      const html = await rendered(staticSummary);
      expect(new Set(tagsIn(html))).toEqual(new Set(['p']));
      const first = asRead(`p: ${prompt.trimStart().split(/[\r\n]/)[0]!}`);
      const shown = textIn(html);
      const isCut = shown.endsWith('…');
      expect(isCut ? first.slice(0, shown.length - 1).trim() : first).toBe(isCut ? shown.slice(0, -1).trim() : shown);
    };
    await fc.assert(fc.asyncProperty(hostile, check), RUNS);
  });

  test('acts as nothing in a job’s details, each line a line of one block of code', async () => {
    const lines = fc.array(hostile, { minLength: 1, maxLength: 4 }).map((all) => all.join('\n'));
    const check = async (prompt: string) => {
      const html = await rendered(jobOf({ prompt }).staticDetails);
      expect(tagsIn(html).filter((tag) => tag !== 'p' && tag !== 'strong')).toEqual(['pre', 'code', 'code', 'pre']);
      expect(html).not.toContain('{workflowId}');
    };
    await fc.assert(fc.asyncProperty(lines, check), RUNS);
  });

  test('acts as nothing in the names of projects and jobs, and in what an export waits for', async () => {
    const check = async (text: string) => {
      const range = { projectId: text, dateFrom: '2026-01-01', dateTo: '2026-01-02' };
      const run = begin({ runId: 'run', secondScan: true, giveUpAfterMs: 0, waitReason: text }, 0);
      expect(new Set(tagsIn(await rendered(rangeTitle(range))))).toEqual(new Set(['p']));
      expect(Buffer.byteLength(rangeTitle(range))).toBeLessThanOrEqual(200);
      expect(new Set(tagsIn(await rendered(rangeDetails(range, run, 0))))).toEqual(new Set(['p', 'strong']));
      if (/\p{Cc}/u.test(text) || encodeId(text).length > LIMIT.idBytes || /^\.+$/.test(text)) return;
      const { staticSummary, staticDetails } = jobOf({ projectId: text, jobId: text });
      expect(new Set(tagsIn(await rendered(staticSummary)))).toEqual(new Set(['p']));
      expect(new Set(tagsIn(await rendered(staticDetails)))).toEqual(new Set(['p', 'strong']));
    };
    await fc.assert(fc.asyncProperty(hostile, check), RUNS);
  });
});

test('nothing that callers and the upstream say becomes an element on a job’s page', async () => {
  const evil =
    '<img src=x onerror=alert(1)> <style>*{}</style> [x](javascript:alert(1)) https://evil.example **b** {workflowId}';
  const upstream = new ObservedUpstream();
  upstream.createAnswer = { id: `job ${evil}` } as object;
  upstream.show = () => ({ status: `st ${evil}`, prLink: `javascript:alert(1)//${evil}` });
  upstream.messageFaults.push(rejected(400, evil), inDoubt('lost before'), inDoubt(`lost ${evil}`));
  const bench = await startJobBench(server, upstream);
  const workflowId = `${randomUUID()}\n\`\`\`\n<img src=x>\n\n<style></style>`;
  const input = { projectId: `p ${evil}`, prompt: evil, polling: { min: 1_000 } };
  const options = agentJobStartOptions(input, { workflowId, taskQueue: bench.taskQueue });
  const handle = await server.client.workflow.start('agentJob', options);
  try {
    await handle.signal(followUpSignal, { prompt: 'one', id: `# first ${evil}` });
    await handle.signal(followUpSignal, { prompt: 'two', id: `1. second ${evil}` });
    const inDoubtFor = async () => (await handle.query(jobStateQuery)).unknown?.reason;
    await expect.poll(inDoubtFor).toBe('lost before');
    const decision = { action: 'retry', by: `by ${evil}`, note: `# note ${evil}\n\n- ${evil}\n\n\`\`\`` } as const;
    await handle.executeUpdate(resolveUnknownUpdate, { args: [decision] });
    await expect.poll(inDoubtFor).toContain('lost <img');
    await handle.signal(pollNowSignal);
    await expect.poll(async () => (await handle.query(jobStateQuery)).job?.status).toContain('st <img');
    const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    // As the page does before it renders.
    const html = await rendered(currentDetails.replace(/\{workflowId\}/g, workflowId));
    for (const shown of ['first <img', 'second <img', 'lost <img', 'st <img', '//<img']) {
      expect(textIn(html)).toContain(shown);
    }
    expect([...new Set(tagsIn(html))].toSorted()).toEqual(['code', 'li', 'p', 'pre', 'strong', 'ul']);
  } finally {
    await handle.terminate();
    await bench.stop();
  }
});
