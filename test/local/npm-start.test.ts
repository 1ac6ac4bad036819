import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { freePort } from '../../src/local/child-process.js';
import { isIgnored } from '../../src/local/local-system.js';
import { startDevServer } from '../../src/local/dev-server.js';
import { startSandbox } from '../../src/sandbox/sandbox.js';
import { connectTo } from '../support/dev-server.js';
import { shared } from '../support/shared.js';
import { textIn } from '../support/text-in.js';
import { newFolder } from '../support/folder.js';

const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;
const LIMIT_MS = 120_000;
const PROGRAMS = {
  npm: ['npm', 'start', '--ignore-scripts', '--'],
  node: [process.execPath, 'dist/local/main.js'],
  dev: [process.execPath, 'dist/cli/main.js', 'dev'],
} as const;

let cli: string;
let home: string;
let started: Start[] = [];
beforeAll(async () => {
  cli = (await shared('dev-server-program')).path;
});
beforeEach(() => void (home = newFolder()));
afterEach(async () => {
  for (const start of started) await start.kill();
  started = [];
});

/** `npm start`, its build left out, with a home of the test's own; or its program, or `agent-jobs dev`, without npm. */
class Start {
  output = '';
  readonly npm: ChildProcess;
  readonly env: NodeJS.ProcessEnv;
  readonly #ended: Promise<unknown[]>;

  constructor(env: Record<string, string> = {}, args: string[] = [], by: keyof typeof PROGRAMS = 'npm') {
    const { PATH = '' } = process.env;
    this.env = { PATH, HOME: home, TEMPORAL_CLI_PATH: cli, ...env };
    const [program, ...first] = PROGRAMS[by];
    this.npm = spawn(program, [...first, ...args], {
      cwd: PROJECT_FOLDER,
      env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    for (const stream of [this.npm.stdout, this.npm.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    this.#ended = once(this.npm, 'close');
    started.push(this);
  }

  /** The first match in what it has printed so far; waits for it. */
  async says(pattern: RegExp): Promise<string> {
    for (const deadline = Date.now() + LIMIT_MS; Date.now() < deadline; await delay(50)) {
      const found = pattern.exec(this.output);
      if (found) return found[1] ?? found[0];
    }
    throw new Error(`never said ${pattern}:\n${this.output}`);
  }

  /** Its own process, the servers and the worker that it runs now, and their watchdogs. */
  async processes(): Promise<Process[]> {
    const folder = await this.says(/^Data +(\S+)$/m);
    const { serverPid } = JSON.parse(await readFile(join(folder, 'system.json'), 'utf8')) as { serverPid: number };
    const all = await allProcesses();
    const own = all.find(({ pid }) => pid === serverPid)!.parent;
    return all.filter(({ pid, parent }) => pid === own || parent === own);
  }

  /** As a terminal's Ctrl-C does it: the shell that npm starts and what runs in it get the signal too. */
  interrupt(): void {
    process.kill(-(this.npm.pid as number), 'SIGINT');
  }

  /** Settles when npm and all that writes to its output have ended. */
  async ended(): Promise<number | null> {
    const [code] = await this.#ended;
    return code as number | null;
  }

  async kill(): Promise<void> {
    this.npm.kill('SIGTERM');
    await this.#ended;
  }
}

function runInShell(command: string, env: NodeJS.ProcessEnv): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)('sh', ['-c', command], { cwd: PROJECT_FOLDER, env, timeout: LIMIT_MS });
}

/** On a machine where they are free, the usual ports are busy then. */
function occupyUsualPorts(): Server[] {
  const listen = (port: number) => createServer((socket) => socket.destroy()).listen(port, '127.0.0.1');
  return [7233, 8080, 8233, 8234].map((port) => listen(port).on('error', () => {}));
}

interface Process {
  pid: number;
  parent: number;
  command: string;
}

/** What runs on this machine; a zombie does not. */
async function allProcesses(): Promise<Process[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid=,ppid=,stat=,args=']);
  const found = [...stdout.matchAll(/^ *(\d+) +(\d+) +([^Z\s]\S*) +(.*)$/gm)];
  return found.map(([, pid, parent, , command]) => ({ pid: Number(pid), parent: Number(parent), command: command! }));
}

async function untilGone(processes: Process[]): Promise<void> {
  const pids = new Set(processes.map(({ pid }) => pid));
  await expect.poll(async () => (await allProcesses()).filter(({ pid }) => pids.has(pid))).toEqual([]);
}

test('npm start runs a job to its pull request beside any settings, and Ctrl-C leaves no process', async () => {
  const busy = occupyUsualPorts();
  const profile = join(home, '.config', 'temporalio');
  await mkdir(profile, { recursive: true });
  await writeFile(join(profile, 'temporal.toml'), '[profile.default]\nnamespace = "production"\n');
  const keysFile = join(home, 'payload-keys.json');
  await writeFile(keysFile, JSON.stringify({ current: 'k', keys: { k: randomBytes(32).toString('base64') } }));
  const metricsPort = await freePort();
  const start = new Start({
    // The proxy is not there: what is on this machine must be reached without it.
    http_proxy: 'http://127.0.0.1:9',
    TEMPORAL_ADDRESS: 'production.example:7233',
    TEMPORAL_API_KEY: 'secret-of-temporal',
    UPSTREAM_BASE_URL: 'https://production.example',
    ADMIN_API_KEY: 'secret-of-the-upstream',
    PAYLOAD_KEYS_FILE: keysFile,
    WEBHOOKS_FILE: join(home, 'webhooks.json'),
    METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
  });
  try {
    await start.says(/stays up/);
    expect(await start.says(/^Ignored +(.*)$/m)).toBe(
      'ADMIN_API_KEY, TEMPORAL_ADDRESS, TEMPORAL_API_KEY, UPSTREAM_BASE_URL, WEBHOOKS_FILE',
    );
    expect(start.output).toMatch(/^Warning +no webhook is sent: .*WEBHOOKS_FILE.*webhooks\.json/m);
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    expect(metrics).toMatch(/^agent_jobs_ended_total{.*completed.* 1$/m);
    expect(start.output).toMatch(/^Outcome +completed/m);
    expect(start.output).toMatch(/^Follow-up .* sent$/m);
    expect(start.output).toMatch(/^PR +https:\/\//m);
    expect(start.output).not.toContain('secret-of');
    expect(start.output).not.toContain('\u001B');
    const address = await start.says(/^Temporal +(\S+), namespace default, task queue agent-jobs$/m);
    expect(start.output).toContain(`--address ${address}`);
    const list = await start.says(/^ {2}(npx agent-jobs list .*)$/m);
    expect((await runInShell(list, start.env)).stdout).toContain('agent-job/demo/');
    const curl = await start.says(/^ {2}(curl .*)$/m);
    const started = JSON.parse((await runInShell(curl, start.env)).stdout) as { url: string | null };
    expect(started).toMatchObject({ key: 'faq', isNew: true, state: { projectId: 'demo' } });
    const page = await start.says(/^Web UI +(\S+)$/m);
    expect(started.url).toBe(new URL('/namespaces/default/workflows/agent-job%2Fdemo%2Ffaq', page).href);
    const { client, close } = await connectTo({ address, namespace: 'default' });
    const job = client.workflow.getHandle(await start.says(/^Workflow +(\S+)/m));
    const history = textIn(await job.fetchHistory());
    await close();
    expect([history.includes('encryption-key-id: k'), history.includes('pricing')]).toEqual([true, false]);
    expect((await fetch(page, { headers: { connection: 'close' } })).status).toBe(200);
    const processes = await start.processes();
    start.interrupt();
    await start.ended();
    expect(start.output).toMatch(/^Stopping …$/m);
    await untilGone(processes);
  } finally {
    for (const server of busy) server.close();
  }
});

/** A file of webhooks that leads to a server of this machine, over plain HTTP. */
async function webhooksTo(receiver: Server): Promise<string> {
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`;
  const secrets = [`whsec_${randomBytes(32).toString('base64')}`];
  const file = join(home, 'webhooks.json');
  await writeFile(file, JSON.stringify({ demo: [{ url, secrets }] }));
  return file;
}

test('after kill -9 npm start shows commands without a server the same job, and refuses a second start', async () => {
  const first = new Start({}, [], 'dev');
  const workflowId = await first.says(/^Workflow +(\S+)$/m);
  await first.says(/^Job +\S+ was created/m);
  const killed = await first.processes();
  first.npm.kill('SIGKILL');
  const receiver = createHttpServer((_, response) => void response.writeHead(204).end());
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  const delivered = once(receiver, 'request');
  const second = new Start({ WEBHOOKS_FILE: await webhooksTo(receiver) }, ['--late-pr', '1ms']);
  expect(await second.says(/^Workflow +(\S+) was under way when the last start ended/m)).toBe(workflowId);
  await untilGone(killed);
  await second.says(/stays up/);
  expect(second.output).toMatch(/^Outcome +completed/m);
  // The pull request came after the end: too late for the demo's follow-up.
  expect(second.output).not.toMatch(/^Follow-up/m);
  expect((await delivered)[0]).toMatchObject({ method: 'POST', url: '/hooks' });
  receiver.close();
  const folder = await second.says(/^Data +(\S+)$/m);
  expect(folder).toBe(await first.says(/^Data +(\S+)$/m));
  const { client, close } = await connectTo({
    address: await second.says(/^Temporal +([^,]+),/m),
    namespace: 'default',
  });
  try {
    expect((await client.workflow.count('WorkflowType = "agentJob"')).count).toBe(1);
    const handle = client.workflow.getHandle(workflowId);
    expect((await handle.describe()).status.name).toBe('COMPLETED');
    // Its worker notices the death of the one before within ten seconds.
    const { events } = await handle.fetchHistory();
    const polls = events?.flatMap(({ activityTaskScheduledEventAttributes: scheduled }) =>
      scheduled?.activityType?.name === 'pollJob' ? [Number(scheduled.heartbeatTimeout?.seconds)] : [],
    );
    expect([...new Set(polls)]).toEqual([10]);
  } finally {
    await close();
  }
  const processes = await second.processes();
  const worker = processes.find(({ command }) => command.includes('worker.js'))!;
  const webUi = await second.says(/^Web UI +(http:..[^/]+)/m);
  // Its webhooks link to the web UI.
  expect(await readFile(`/proc/${worker.pid}/environ`, 'utf8')).toContain(`\0AGENT_JOBS_WEB_UI_URL=${webUi}\0`);
  const address = await second.says(/^Temporal +([^,]+),/m);
  const state = (env = second.env) => runInShell(`node dist/cli/main.js state ${workflowId}`, env);
  const { stdout, stderr } = await state();
  expect(/^Web UI +(http:..[^/]+)/m.exec(stdout)?.[1]).toBe(webUi);
  expect(stderr).toBe(`agent-jobs: the server is that of npm start, ${address}, ${folder}\n`);
  const third = new Start({}, [], 'dev');
  expect(await third.ended()).toBe(1);
  expect(third.output).toContain(`npm start already runs, and serves Temporal at ${address}`);
  second.npm.kill('SIGKILL');
  await untilGone(processes);
  expect(existsSync(join(folder, 'system.json'))).toBe(false);
  // Another program may have Temporal's usual port: through a proxy that is away no server answers.
  const proxy = { TEMPORAL_PROXY: `127.0.0.1:${await freePort()}` };
  await expect(state({ ...second.env, ...proxy })).rejects.toThrow('can not reach Temporal at localhost:7233');
});

test('with --real jobs go to the upstream, whose absence is shown first; a write in flight is finished', async () => {
  const apiKey = 'key-of-the-real-one';
  const port = await freePort();
  const workers = { WORKER_ROLES: 'exports', WORKER_DEPLOYMENT: 'production', WORKER_BUILD_ID: '1' };
  const env = { UPSTREAM_BASE_URL: `http://127.0.0.1:${port}`, ADMIN_API_KEY: apiKey, ...workers };
  const first = new Start(env, ['--real'], 'dev');
  // The check has other findings, such as a refused key. `agent-jobs doctor` prints them in the same words.
  await first.says(/^Warning +http:\/\/127\.0\.0\.1:\d+: .*mend that before the first job$/m);
  await first.says(/stays up/);
  const upstream = await startSandbox({ apiKey, port });
  try {
    const lines = first.output.split('\n').filter((line) => line !== '');
    expect(lines[0]).toMatch(/^REAL JOBS/);
    expect(first.output).toMatch(/^Ignored +WORKER_BUILD_ID, WORKER_DEPLOYMENT, WORKER_ROLES$/m);
    expect(first.output).not.toMatch(/^(Sandbox|Outcome)/m);
    expect(first.output).not.toContain('key-of');
    await upstream.addFault({ kind: 'delay', operation: 'create', effect: 'after', delayMs: 7_000 });
    const own = await connectTo({ address: await first.says(/^Temporal +([^,]+),/m), namespace: 'default' });
    await own.client.workflow.start('agentJob', {
      workflowId: 'in-flight',
      taskQueue: 'agent-jobs',
      args: [{ projectId: 'mine', prompt: 'Fix the title' }],
    });
    await expect.poll(() => upstream.creates({ projectId: 'mine' })).toHaveLength(1);
    await own.close();
    first.interrupt();
    // What npm and a terminal make of one Ctrl-C besides is no second one, which would cut the write off.
    process.kill((await first.processes()).find(({ command }) => / dev /.test(command))!.pid, 'SIGINT');
    expect(await first.ended()).toBe(0);
    const [created] = await upstream.creates({ projectId: 'mine' });
    expect(await historyIn(await first.says(/^Data +(\S+)$/m), 'in-flight')).toContain(`"jobId":"${created!.id}"`);
  } finally {
    await upstream.close();
  }
});

/** What the database of a start holds of a workflow: its results are there if the worker could report them. */
async function historyIn(folder: string, workflowId: string): Promise<string> {
  const [databaseFile, logFile] = [join(folder, 'temporal.db'), join(home, 'server.log')];
  const server = await startDevServer({ program: cli, databaseFile, logFile });
  try {
    const { client, close } = await connectTo(server);
    const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
    await close();
    return textIn(events?.map(({ activityTaskCompletedEventAttributes: completed }) => completed?.result));
  } finally {
    await server.stop();
  }
}

test('with --real a key in clear text is warned of first; the end of the worker ends all', async () => {
  const upstream = { UPSTREAM_BASE_URL: 'http://upstream.invalid', ADMIN_API_KEY: 'another-key' };
  const env = { ...upstream, TEMPORAL_ADDRESS: 'production.example:7233' };
  const start = new Start(env, ['--real'], 'node');
  await start.says(/^Warning +UPSTREAM_BASE_URL is http: /m);
  expect(start.output).not.toMatch(/^Temporal/m);
  await start.says(/^Ignored +TEMPORAL_ADDRESS$/m);
  await start.says(/^Worker +ready/m);
  const processes = await start.processes();
  process.kill(processes.find(({ command }) => command.endsWith('worker.js'))!.pid, 'SIGKILL');
  expect(await start.ended()).toBe(1);
  expect(start.output).toContain('The worker ended by itself (SIGKILL). Start again, and the jobs go on');
  expect(start.output).not.toContain('another-key');
  await untilGone(processes);
});

test('Ctrl-C within the fetch of the server leaves nothing of it', async () => {
  const start = new Start({ TEMPORAL_CLI_PATH: '', PATH: '/nowhere' }, [], 'node');
  await start.says(/^Fetching/m);
  start.interrupt();
  expect(await start.ended()).toBe(0);
  expect(await readdir(join(home, '.cache', 'agent-jobs', 'programs'))).toEqual([]);
});

test('Ctrl-C within the start of the server leaves no process', async () => {
  const start = new Start({}, [], 'node');
  const folder = await start.says(/^Data +(\S+)$/m);
  start.interrupt();
  expect(await start.ended()).toBe(0);
  expect((await allProcesses()).filter(({ command }) => command.includes(folder))).toEqual([]);
});

test('a time that is none is refused, and nothing started', async () => {
  const start = new Start({}, ['--late-pr=1ms', '--stale-end', 'soon'], 'dev');
  expect(await start.ended()).toBe(2);
  expect(start.output).toMatch(/^--stale-end must be a number of milliseconds or a string such as/);
  expect(start.output).toContain('Usage: npm start');
});

test('with --real and nothing set, all that is missing is named and nothing started', async () => {
  const start = new Start({}, ['--real'], 'node');
  await start.says(/ADMIN_API_KEY/);
  expect(start.output).toContain('UPSTREAM_BASE_URL');
  expect(await start.ended()).toBe(1);
  expect(start.output).not.toContain('Stopping');
  expect(existsSync(join(home, '.local', 'state'))).toBe(false);
});

test('webhooks stay on this machine, and what leads to another one is ignored', async () => {
  const fileOf = async (...urls: string[]) => {
    const file = join(home, `${randomUUID()}.json`);
    await writeFile(file, JSON.stringify({ demo: urls.map((url) => ({ url, secrets: [] })) }));
    return file;
  };
  const isDropped = (file: string) => isIgnored('WEBHOOKS_FILE', { WEBHOOKS_FILE: file }, false);
  expect(isDropped(await fileOf('http://127.0.0.1:9000/a', 'http://localhost/b'))).toBe(false);
  expect(isDropped(await fileOf('http://127.0.0.1:9000/a', 'https://example.com/b'))).toBe(true);
  expect(isDropped('/not/there')).toBe(true);
  const env = { HTTPS_PROXY: 'http://proxy', HTTP_KEYS_FILE: 'keys', MESSAGES_PER_HOUR: '5', LOG_LEVEL: 'debug' };
  expect(Object.keys(env).filter((name) => isIgnored(name, env, false))).toEqual(['HTTPS_PROXY', 'HTTP_KEYS_FILE']);
});
