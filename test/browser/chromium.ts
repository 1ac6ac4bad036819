/** A headless Chromium, driven over its DevTools protocol. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'undici';

const ARGUMENTS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update', '--window-size=1300,1000'],
];

export interface Page {
  open: (url: string) => Promise<void>;
  /** The value of an expression in the page. */
  evaluate: (expression: string) => Promise<unknown>;
  /** The size of what a reader sees, in pixels. */
  resize: (size: { width: number; height: number }) => Promise<void>;
  /** A PNG of what a reader sees. */
  screenshot: () => Promise<Buffer>;
  close: () => Promise<void>;
}

/** Starts the browser with a profile of its own; `CHROMIUM` names another program than `chromium`. */
export async function openPage(program: string): Promise<Page> {
  const profile = await mkdtemp(join(tmpdir(), 'agent-jobs-browser-'));
  const browser = spawn(
    program,
    [...ARGUMENTS, '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  const ended = new Promise<void>((resolve) => browser.once('close', () => resolve()));
  const port = await new Promise<string>((resolve, reject) => {
    browser.once('error', reject);
    let said = '';
    browser.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      const found = /DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)/.exec(said);
      if (found) resolve(found[1]!);
    });
  });
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as {
    type: string;
    webSocketDebuggerUrl: string;
  }[];
  const call = await protocol(targets.find(({ type }) => type === 'page')!.webSocketDebuggerUrl);
  return {
    open: async (url) => void (await call('Page.navigate', { url })),
    evaluate: async (expression) => {
      const { result } = (await call('Runtime.evaluate', { expression, returnByValue: true })) as {
        result: { value: unknown };
      };
      return result.value;
    },
    resize: async (size) => {
      await call('Emulation.setDeviceMetricsOverride', { ...size, deviceScaleFactor: 1, mobile: false });
      await call('Emulation.setScrollbarsHidden', { hidden: true });
    },
    screenshot: async () =>
      Buffer.from(((await call('Page.captureScreenshot', {})) as { data: string }).data, 'base64'),
    close: async () => {
      browser.kill();
      await ended;
      await delay(100); // its last children let go of the profile
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

type Call = (method: string, params: object) => Promise<unknown>;

async function protocol(url: string): Promise<Call> {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
    if (id !== undefined) waiting.get(id)?.(result);
  });
  await new Promise((resolve) => socket.addEventListener('open', resolve, { once: true }));
  let last = 0;
  return (method, params) =>
    new Promise((resolve) => {
      waiting.set(++last, resolve);
      socket.send(JSON.stringify({ id: last, method, params }));
    });
}
