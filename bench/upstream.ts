/** The upstream of a run: the sandbox in a process of its own, so its CPU is not counted. */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort, startProcess } from '../src/local/child-process.js';
import { SANDBOX_API_KEY, SandboxControl, type SandboxCounts } from '../src/testing.js';

const PROGRAM = fileURLToPath(new URL('../dist/sandbox/main.js', import.meta.url));

type Requests = Record<'create' | 'get' | 'message' | 'visitors', number>;

export interface BenchUpstream {
  url: string;
  key: string;
  control: SandboxControl;
  /** Requests of all operations since they were last counted anew. */
  requests(): Promise<Requests>;
  countAnew(): Promise<void>;
  /** When each job of the upstream was created, in milliseconds, by job id. */
  createdAt(): Promise<Map<string, number>>;
  stop(): Promise<void>;
}

export async function startUpstream(folder: string): Promise<BenchUpstream> {
  const port = await freePort();
  const child = await startProcess({
    program: process.execPath,
    args: [PROGRAM, '--port', String(port), '--quiet'],
    env: {},
    logFile: join(folder, 'upstream.log'),
  });
  const url = `http://127.0.0.1:${port}`;
  const control = new SandboxControl(url);
  await untilAnswers(control);
  let before: Requests | undefined;
  return {
    url,
    key: SANDBOX_API_KEY,
    control,
    requests: async () => requestsOf(await control.counts(), before),
    countAnew: async () => void (before = requestsOf(await control.counts())),
    createdAt: async () => new Map((await control.creates()).map(({ id, at }) => [id, Date.parse(at)])),
    stop: () => child.stop(1_000),
  };
}

function requestsOf({ operations }: SandboxCounts, before?: Requests): Requests {
  const of = (operation: keyof Requests) => operations[operation].requests - (before?.[operation] ?? 0);
  return { create: of('create'), get: of('get'), message: of('message'), visitors: of('visitors') };
}

async function untilAnswers(control: SandboxControl): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return void (await control.counts());
    } catch (error) {
      if (tries === 200) throw error;
      await pause(100);
    }
  }
}
