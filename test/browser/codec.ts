/**
 * Shows an encrypted job in Temporal's own web UI, in a real browser, before and after a sign-in to the codec server:
 * `npx tsx test/browser/codec.ts [folder]`, on a machine with Chromium. Ends with 1 where the prompt is not shown after
 * it, or is shown before; the pictures in the folder are for the eye.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createActivities } from '../../src/activities/index.js';
import { noMetrics } from '../support/no-metrics.js';
import { createCodecServer } from '../../src/cli/codec-http.js';
import { findDevServer } from '../../src/local/fetched-program.js';
import { startDevServer } from '../../src/local/dev-server.js';
import { AgentJobs } from '../../src/starter.js';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { workflowBundlePath } from '../../src/temporal/workflow-bundle.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { openPage } from './chromium.js';

const WORD = 'zeugma';
const TOKEN = randomBytes(32).toString('hex');
/** The web UI has drawn its frames by then. */
const DRAWN_MS = 6_000;

const folder = process.argv[2] ?? 'browser';
await mkdir(folder, { recursive: true });
const keysFile = join(folder, 'keys.json');
await writeFile(keysFile, JSON.stringify({ current: 'k', keys: { k: randomBytes(32).toString('base64') } }));
const dataConverter = { payloadCodecs: [openPayloadCodec(keysFile)] };
const program = await findDevServer({ env: process.env });
const server = await startDevServer({ program, logFile: join(folder, 'dev-server.log'), ui: true });
const codecServer = createCodecServer({
  codec: dataConverter.payloadCodecs[0]!,
  namespace: server.namespace,
  origins: [server.uiUrl!],
  token: () => Promise.resolve(TOKEN),
  onProblem: (problem) => process.stderr.write(`${problem}\n`),
}).listen(0, '127.0.0.1');
await once(codecServer, 'listening');
const codecUrl = `http://127.0.0.1:${(codecServer.address() as AddressInfo).port}`;
const native = await NativeConnection.connect({ address: server.address });
const connection = await Connection.connect({ address: server.address });
const jobs = new AgentJobs({ client: new Client({ connection, dataConverter }), taskQueue: 'browser' });
const shutdown = new AbortController();
const upstream = new ScriptedUpstream();
const worker = await Worker.create({
  connection: native,
  taskQueue: 'browser',
  workflowBundle: { codePath: workflowBundlePath },
  activities: createActivities({ upstream, shutdownSignal: shutdown.signal, metrics: noMetrics }),
  dataConverter,
});

const seen: Record<string, boolean> = {};
await worker.runUntil(async () => {
  const job = await jobs.start({ projectId: 'acme', key: 'one', prompt: `Please ${WORD} the page` });
  await delay(3_000);
  const { runId } = await jobs.client.workflow.getHandle(job.workflowId).describe();
  const page = await openPage(process.env.CHROMIUM ?? 'chromium');
  const path = `/namespaces/default/workflows/${encodeURIComponent(job.workflowId)}/${runId}`;
  const look = async (name: string, view: string) => {
    await page.open(`${server.uiUrl}${path}${view}`);
    await delay(DRAWN_MS);
    await writeFile(join(folder, `codec-${name}.png`), await page.screenshot());
    const text = `document.body.innerText + [...document.querySelectorAll('iframe, .cm-content')]
      .map((e) => e.contentDocument?.body.innerText ?? e.innerText).join()`;
    seen[name] = String(await page.evaluate(text)).includes(WORD);
  };
  try {
    await page.resize({ width: 1_400, height: 940 });
    await page.open(server.uiUrl!);
    await delay(DRAWN_MS);
    const settings = { endpoint: codecUrl, includeCredentials: true, overrideRemoteCodecConfiguration: true };
    for (const [name, value] of Object.entries(settings))
      await page.evaluate(`localStorage.setItem('${name}', ${JSON.stringify(JSON.stringify(value))})`);
    await look('before', '/history');
    await page.open(codecUrl);
    await delay(1_000);
    await page.evaluate(`document.querySelector('input').value = '${TOKEN}'; document.querySelector('button').click()`);
    await delay(1_000);
    await writeFile(join(folder, 'codec-sign-in.png'), await page.screenshot());
    await look('history', '/history');
    await look('metadata', '/user-metadata');
  } finally {
    await page.close();
  }
  await job.cancel();
  shutdown.abort();
});
await connection.close();
await native.close();
codecServer.close();
codecServer.closeAllConnections();
await server.stop();
process.stdout.write(`${JSON.stringify(seen)}\n`);
process.exit(!seen['before'] && seen['history'] && seen['metadata'] ? 0 : 1);
