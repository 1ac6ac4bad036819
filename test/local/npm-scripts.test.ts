import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';

const PROJECT_FOLDER = new URL('../../', import.meta.url);

/** Programs that come with Node or with the packages of this project; npm finds them on every system. */
const PROGRAMS = ['knip', 'node', 'npm', 'oxlint', 'prettier', 'tsc', 'tsx', 'vitest'];

test('every npm script is made of words that the shells of Windows and Unix read alike, exec by exec.cmd', async () => {
  const { scripts } = JSON.parse(await readFile(new URL('package.json', PROJECT_FOLDER), 'utf8')) as {
    scripts: Record<string, string>;
  };
  expect(Object.keys(scripts)).toContain('start');
  for (const [name, script] of Object.entries(scripts)) {
    expect(script, name).toMatch(/^[\w ./:=&-]+$/);
    expect(script, name).not.toMatch(/(^|[^&])&($|[^&])/);
    for (const command of script.split(' && ')) {
      expect(PROGRAMS, script).toContain(command.replace(/^exec /, '').split(' ')[0]);
    }
  }
  // cmd.exe looks in the current folder first, which is the project's: there exec runs the rest of its line.
  expect(await readFile(new URL('exec.cmd', PROJECT_FOLDER), 'utf8')).toMatch(/^@%\*\r\n$/m);
});

test("README's first command installs a clone and starts what it has built, as these tests are built", async () => {
  const readme = await readFile(new URL('README.md', PROJECT_FOLDER), 'utf8');
  expect(/```sh\n(.*)\n```/.exec(readme)?.[1]).toBe('npm ci && npm start');
  const { scripts } = JSON.parse(await readFile(new URL('package.json', PROJECT_FOLDER), 'utf8')) as {
    scripts: Record<string, string>;
  };
  expect(scripts).toMatchObject({ prestart: scripts['pretest'], pretest: 'npm run build --silent' });
});

/** Runs a script until it has written something like the pattern, then ends npm, as a service manager does. */
async function runAndEnd(
  args: string[],
  env: Record<string, string>,
  pattern: RegExp,
): Promise<{ output: string; code: number | null }> {
  const npm = spawn('npm', args, {
    cwd: PROJECT_FOLDER,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const closed = once(npm, 'close');
  await expect.poll(() => output).toMatch(pattern);
  npm.kill('SIGTERM');
  // The output closes when the last process that writes to it has ended.
  const [code] = await closed;
  return { output, code: code as number | null };
}

test('npm hands SIGTERM on to the sandbox that it started, and ends with it', async () => {
  const { output, code } = await runAndEnd(['run', 'sandbox', '--ignore-scripts'], {}, /API key/);
  const url = /^Sandbox upstream +(\S+)$/m.exec(output)?.[1] as string;
  await expect(fetch(url)).rejects.toThrow('fetch failed');
  expect(code).toBe(0);
});

test('npm hands SIGTERM on to the worker that it started, and ends when that has shut down', async () => {
  // The worker waits for a Temporal that is not there, and would for ever.
  const upstream = { UPSTREAM_BASE_URL: 'http://upstream.example', ADMIN_API_KEY: 'key' };
  const { output, code } = await runAndEnd(
    ['run', 'worker'],
    { ...upstream, TEMPORAL_ADDRESS: '127.0.0.1:9' },
    /"level":/,
  );
  expect(output).toContain('Shutting down');
  expect(code).toBe(0);
  expect(output).toContain('UPSTREAM_BASE_URL is http: keys and prompts cross the network in clear text');
});
