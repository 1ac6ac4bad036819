/** `bench/peer.mjs` does what a bench of other engines asks of it: jobs, an export, and the size of its store. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { startSandbox } from '../../src/testing.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const PEER = fileURLToPath(new URL('../../bench/peer.mjs', import.meta.url));
const MESSAGE = '@bench ';
const sandbox = useForFile(() => startSandbox({ apiKey: 'secret', script: { activeMs: 100 } }));

test('jobs end, an export has each row, the store has a size, and it stops when told', async () => {
  const folder = newFolder();
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], BENCH_UPSTREAM: sandbox.url, BENCH_DIR: folder };
  const peer = spawn(process.execPath, [PEER], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const answers = answersOf(createInterface({ input: peer.stdout }));
    const ask = async (command: object) => {
      peer.stdin.write(`${JSON.stringify(command)}\n`);
      return (await answers.next()).value as object;
    };
    expect((await answers.next()).value).toMatchObject({ ready: true });
    expect(await ask({ cmd: 'jobs', tag: 'a', n: 1, pollMs: 500 })).toMatchObject({ job: { status: 'completed' } });
    expect((await answers.next()).value).toMatchObject({ done: 'a' });
    const out = join(folder, 'rows');
    const { exported } = (await ask({ cmd: 'export', rows: 10, out })) as { exported: { rows: number; file: string } };
    expect(exported.rows).toBeGreaterThan(0);
    expect(readFileSync(exported.file, 'utf8').trimEnd().split('\n')).toHaveLength(exported.rows);
    expect(await ask({ cmd: 'store' })).toMatchObject({ store: { events: expect.any(Number) } });
    peer.stdin.write('{"cmd":"stop"}\n');
    expect(await once(peer, 'exit')).toEqual([0, null]);
  } finally {
    peer.kill('SIGKILL');
  }
});

async function* answersOf(lines: AsyncIterable<string>): AsyncGenerator<unknown> {
  for await (const line of lines) if (line.startsWith(MESSAGE)) yield JSON.parse(line.slice(MESSAGE.length));
}
