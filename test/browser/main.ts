/**
 * Shows a job with hostile texts in Temporal's own web UI, in a real browser: `npx tsx test/browser/main.ts [folder]`,
 * on a machine with Chromium. Ends with 1 where a text became an element; the pictures in the folder are for the eye.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createActivities } from '../../src/activities/index.js';
import { followUpSignal } from '../../src/contract.js';
import { findDevServer } from '../../src/local/fetched-program.js';
import { startDevServer } from '../../src/local/dev-server.js';
import { noMetrics } from '../support/no-metrics.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { workflowBundlePath } from '../../src/temporal/workflow-bundle.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { openPage, type Page } from './chromium.js';

const EVIL =
  '<img src=http://127.0.0.1:9/x onerror=alert(1)><style>body{background:red}</style> ' +
  'https://evil.example [pay](javascript:alert(1)) **b**';
const PAGES = { timeline: '/timeline', history: '/history', metadata: '/user-metadata' };
/** Elements of the rendered texts that none of ours are made of; the web UI's own lie outside of the frames. */
const FOREIGN = `[...document.querySelectorAll('iframe')].flatMap((frame) =>
  [...(frame.contentDocument?.querySelectorAll('main *') ?? [])]
    .filter((e) => !/^(P|STRONG|UL|LI|CODE|PRE|BR)$/.test(e.tagName))
    .map((e) => e.outerHTML))`;
const FRAMES = `[...document.querySelectorAll('iframe')]
  .map((frame) => frame.contentDocument?.body.innerText ?? '')
  .filter((text) => text.trim())`;

const folder = process.argv[2] ?? 'browser';
await mkdir(folder, { recursive: true });
const program = await findDevServer({ env: process.env });
const server = await startDevServer({ program, logFile: join(folder, 'dev-server.log'), ui: true });
const upstream = new ScriptedUpstream();
upstream.show = () => ({ status: `st ${EVIL}`, prLink: `javascript:alert(1)//${EVIL}` });
upstream.messageFaults.push({ kind: 'rejected', status: 400, error: EVIL });
const native = await NativeConnection.connect({ address: server.address });
const connection = await Connection.connect({ address: server.address });
const client = new Client({ connection });
const shutdown = new AbortController();
const worker = await Worker.create({
  connection: native,
  taskQueue: 'browser',
  workflowBundle: { codePath: workflowBundlePath },
  activities: createActivities({ upstream, shutdownSignal: shutdown.signal, metrics: noMetrics }),
});
let found: unknown[] = [];
await worker.runUntil(async () => {
  const start = agentJobStartOptions(
    { projectId: `shop ${EVIL.slice(0, 60)}`, prompt: EVIL },
    { key: 'hostile', taskQueue: 'browser' },
  );
  const handle = await client.workflow.start('agentJob', start);
  await handle.signal(followUpSignal, { prompt: 'Go on', id: `1. ${EVIL}` });
  await delay(3_000);
  const page = await openPage(process.env.CHROMIUM ?? 'chromium');
  try {
    for (const [name, path] of Object.entries(PAGES))
      found = [...found, ...(await look(page, name, [start.workflowId, handle.firstExecutionRunId], path))];
  } finally {
    await page.close();
  }
  await handle.terminate();
  shutdown.abort();
});
await connection.close();
await native.close();
await server.stop();
process.stdout.write(found.length === 0 ? 'no text became an element\n' : `${found.join('\n')}\n`);
process.exit(found.length === 0 ? 0 : 1);

async function look(page: Page, name: string, ids: string[], path: string): Promise<unknown[]> {
  await page.open(`${server.uiUrl}/namespaces/default/workflows/${ids.map(encodeURIComponent).join('/')}${path}`);
  await delay(5_000);
  await writeFile(join(folder, `${name}.png`), await page.screenshot());
  process.stdout.write(`${name}: ${JSON.stringify(await page.evaluate(FRAMES))}\n`);
  return (await page.evaluate(FOREIGN)) as unknown[];
}
