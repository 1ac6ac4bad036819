/**
 * Vitest's global set-up: makes what every test file shares (a dev server, the time-skipping server's program, the
 * workflow bundle) once per run, and only when the first test asks for it.
 */
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { freePort } from '../../src/local/child-process.js';
import { findDevServer } from '../../src/local/find-dev-server.js';
import { startDevServer, type DevServer } from '../../src/local/dev-server.js';
import { workflowBundleOptions, workflowBundlePath } from '../../src/temporal/workflow-bundle.js';
import { findTimeSkippingProgram } from './time-skipping-program.js';

/** What the host makes, by the path under which tests ask for it. */
export interface Shared {
  'dev-server': { address: string; namespace: string; metricsUrl: string };
  'dev-server-program': { path: string };
  'time-skipping-program': { path: string };
  'workflow-bundle': { path: string };
}

declare module 'vitest' {
  export interface ProvidedContext {
    testHost: string;
  }
}

const SHARED_CONFIG = {
  'history.timerProcessorMaxTimeShift': '"50ms"',
  'frontend.WorkflowPauseEnabled': 'true',
  'frontend.WorkflowTimeSkippingEnabled': 'true',
  // A workflow task that fails is tried again soon, and listed as stuck after two tries instead of five.
  'history.workflowTaskRetryMaxInterval': '"2s"',
  'system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute': '2',
};
const source = fileURLToPath(new URL('../../src/', import.meta.url));
const say = (line: string) => process.stderr.write(`${line}\n`);

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await warnOfOldBuild();
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  let devServer: DevServer | undefined;
  const findProgram = once(async () => ({ path: await findDevServer({ env: process.env, onProgress: say }) }));
  const shared: { [K in keyof Shared]: () => Promise<Shared[K]> } = {
    'dev-server-program': findProgram,
    'dev-server': once(async () => {
      const { path } = await findProgram();
      const metricsPort = await freePort();
      devServer = await startDevServer({
        program: path,
        logFile: join(folder, 'dev-server.log'),
        metricsPort,
        dynamicConfig: SHARED_CONFIG,
      });
      const { address, namespace } = devServer;
      return { address, namespace, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics` };
    }),
    'time-skipping-program': once(async () => ({ path: await findTimeSkippingProgram(say) })),
    'workflow-bundle': once(() => bundleWorkflows(folder)),
  };
  const server = createServer((request, response) => {
    const make = shared[request.url?.slice(1) as keyof Shared];
    make().then(
      (made) => response.end(JSON.stringify(made)),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  project.provide('testHost', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.closeAllConnections();
    server.close();
    await devServer?.stop();
    await rm(folder, { recursive: true, force: true });
  };
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}

/** Tests of whole programs run what was built; `npm test` builds it first. */
async function warnOfOldBuild(): Promise<void> {
  const changedAt = async (path: string) => (await stat(path).catch(() => null))?.mtimeMs ?? 0;
  const sources = await readdir(source, { recursive: true });
  const newest = Math.max(...(await Promise.all(sources.map((path) => changedAt(join(source, path))))));
  if (newest > (await changedAt(workflowBundlePath))) say('The sources are newer than dist: run "npm run build"');
}

async function bundleWorkflows(folder: string): Promise<{ path: string }> {
  const { bundleWorkflowCode } = await import('@temporalio/worker');
  const { code } = await bundleWorkflowCode(workflowBundleOptions(source, '.ts'));
  const path = join(folder, 'workflow-bundle.js');
  await writeFile(path, code);
  return { path };
}
