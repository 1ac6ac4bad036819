/**
 * Takes the pictures of Temporal's web UI in docs/images from a real run of `npm start`: `npx tsx
 * test/browser/pictures.ts [folder]`, after a build, on a machine with Chromium.
 */
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { AgentJobs } from '../../src/starter.js';
import { jobUrl } from '../../src/client/web-ui.js';
import { SandboxControl } from '../../src/testing.js';
import { openPage, type Page } from './chromium.js';

/** The web UI has drawn its frames by then. */
const DRAWN_MS = 10_000;
/** What "Configure Columns" of the web UI 2.54 stores in the browser. */
const { phase, outcome, prLink } = SEARCH_ATTRIBUTE;
const COLUMNS = { default: ['Workflow ID', phase, outcome, prLink].map((label) => ({ label })) };
const SIZE = { width: 1_400, height: 940 };

const folder = process.argv[2] ?? 'docs/images';
await mkdir(folder, { recursive: true });
const state = await mkdtemp(join(tmpdir(), 'agent-jobs-pictures-'));
const local = spawn(process.execPath, ['dist/local/main.js'], {
  env: { ...process.env, XDG_STATE_HOME: state, NO_COLOR: '1' },
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  const output = await untilReady();
  const job = /^Web UI +(\S+)$/m.exec(output)?.[1];
  const sandbox = /^Sandbox +(http\S+?),/m.exec(output)?.[1];
  const address = /^Temporal +([\d.:]+),/m.exec(output)?.[1];
  if (!job || !sandbox || !address) throw new Error(`no addresses in:\n${output}`);
  const inDoubt = await startInDoubt(sandbox, address, new URL(job).origin);
  const page = await openPage(process.env.CHROMIUM ?? 'chromium');
  try {
    await page.resize(SIZE);
    await take(page, 'web-ui', job);
    await take(page, 'web-ui-attention', inDoubt);
    await page.evaluate(`localStorage.setItem('namespace-workflow-table-columns', '${JSON.stringify(COLUMNS)}')`);
    await page.resize({ ...SIZE, height: 480 });
    await take(
      page,
      'web-ui-columns',
      new URL("/namespaces/default/workflows?query=WorkflowType='agentJob'", job).href,
    );
  } finally {
    await page.close();
  }
} finally {
  local.kill('SIGINT');
  await new Promise((resolve) => local.once('close', resolve));
  await rm(state, { recursive: true, force: true });
}

/** A job whose create was cut off; answers with its page. */
async function startInDoubt(sandbox: string, address: string, webUiUrl: string): Promise<string> {
  await new SandboxControl(sandbox).addFault({ kind: 'reset', effect: 'after', promptIncludes: 'calculator' });
  const jobs = await AgentJobs.connect({ address, webUiUrl });
  const job = await jobs.start({ projectId: 'acme/site', key: 'TICKET 42', prompt: 'Add a calculator to the page' });
  while ((await job.state()).phase !== 'needsAttention') await delay(200);
  const { runId } = await jobs.client.workflow.getHandle(job.workflowId).describe();
  const page = jobUrl(jobs.webUi!, { workflowId: job.workflowId, runId });
  await jobs.close();
  return page;
}

/** What the start has printed once its demo job has ended. */
function untilReady(): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = '';
    local.once('close', () => reject(new Error(`it ended:\n${output}`)));
    local.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('until Ctrl-C')) resolve(output);
    });
  });
}

async function take(page: Page, name: string, url: string): Promise<void> {
  await page.open(url);
  await delay(DRAWN_MS);
  await writeFile(join(folder, `${name}.png`), await page.screenshot());
}
