import { execFile } from 'node:child_process';
import { access, chmod, cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, test } from 'vitest';
import { WORKER_VARIABLES } from '../../src/config.js';
import { newFolder } from '../support/folder.js';

const run = promisify(execFile);
const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;

let folder: string;
beforeEach(() => void (folder = newFolder()));

/** The lines of one service, without comments. */
async function service(name: string): Promise<string> {
  const text = await readFile(join(PROJECT_FOLDER, 'docker-compose.yml'), 'utf8');
  const services = text.replaceAll(/^\s*#.*\n/gm, '').split(/^ {2}(?=[\w-]+:\n)/m);
  const found = services.find((lines) => lines.startsWith(`${name}:\n`));
  if (found === undefined) throw new Error(`no service ${name}`);
  return found;
}

test('docker-compose.yml hands every setting of a worker on to its worker', async () => {
  const worker = await service('worker');
  // The key itself stays out of the environment, which `docker inspect` shows.
  const wanted = WORKER_VARIABLES.filter((name) => name !== 'ADMIN_API_KEY');
  expect(wanted.length).toBeGreaterThan(15);
  const checksums = ['AWS_REQUEST_CHECKSUM_CALCULATION', 'AWS_RESPONSE_CHECKSUM_VALIDATION'];
  const ofSdks = ['TEMPORAL_ADDRESS', 'TEMPORAL_NAMESPACE', 'AWS_REGION', 'AWS_ENDPOINT_URL', ...checksums];
  const others = [...ofSdks, 'NODE_OPTIONS'];
  for (const name of [...wanted, ...others]) expect(worker).toMatch(new RegExp(`^ {6}${name}:`, 'm'));
});

test('the image has root certificates, by which a worker trusts Temporal Cloud', async () => {
  const dockerfile = await readFile(join(PROJECT_FOLDER, 'Dockerfile'), 'utf8');
  const [last] = dockerfile.split(/^FROM /m).slice(-1);
  const [asRoot] = last!.split(/^USER /m);
  expect(asRoot).toMatch(/^RUN .*apt-get install .*\bca-certificates\b/m);
});

test('the image is built of what its Dockerfile copies and .dockerignore lets in', async () => {
  const read = (file: string) => readFile(join(PROJECT_FOLDER, file), 'utf8');
  const [build] = (await read('Dockerfile')).split(/^FROM .*(?<! AS build)$/m);
  const copied = [...build!.matchAll(/^COPY (.*) \S+$/gm)].flatMap(([, paths]) =>
    paths!.split(' ').map((path) => path.replace(/^\.\//, '')),
  );
  const allowed = (await read('.dockerignore')).split('\n');
  for (const path of copied.filter((path) => allowed.includes(`!${path}`))) {
    const filter = (source: string) => !source.endsWith('/client/dist');
    await cp(join(PROJECT_FOLDER, path), join(folder, path), { recursive: true, filter });
  }
  await symlink(join(PROJECT_FOLDER, 'node_modules'), join(folder, 'node_modules'));
  await run('npm', ['run', 'build', '--silent'], { cwd: folder });
  await expect(access(join(folder, 'dist/workflow-bundle.js'))).resolves.toBeUndefined();
});

test('every service has a memory limit and an image of an exact version', async () => {
  const servers = ['postgresql', 'temporal-schema', 'temporal', 'temporal-namespace', 'temporal-ui'];
  const names = [...servers, 'worker', 'serve', 'sandbox', 'prometheus', 'grafana'];
  for (const name of names) {
    const lines = await service(name);
    expect(lines, name).toMatch(/^ {4}mem_limit: \S+$/m);
    expect(lines, name).toMatch(/^ {4}image: (agent-jobs:\S+|\S+:\$\{\w+:-v?\d+\.\d+(\.\d+)?\})$/m);
  }
});

/** Runs the schema script with a tool that notes its calls and fails a given number of times. */
async function setUpSchema(
  password: string,
  failures: number,
): Promise<{ code: number; calls: string[]; words: string }> {
  const [calls, left] = [join(folder, 'calls'), join(folder, 'left')];
  await writeFile(calls, '');
  await writeFile(left, String(failures));
  const tool = `#!/bin/sh
echo "$SQL_PASSWORD|$*" >> '${calls}'
left=$(cat '${left}')
[ "$left" -eq 0 ] || { echo $((left - 1)) > '${left}'; exit 1; }
`;
  await writeFile(join(folder, 'temporal-sql-tool'), tool);
  await chmod(join(folder, 'temporal-sql-tool'), 0o755);
  const env = {
    PATH: `${folder}:/usr/bin:/bin`,
    SQL_PASSWORD: password,
    SCHEMA_FOLDER: '/schema',
    ATTEMPTS: '5',
    PAUSE: '0',
  };
  const result = await run('sh', [join(PROJECT_FOLDER, 'deploy/temporal/setup-schema.sh')], { env }).then(
    ({ stdout, stderr }) => ({ code: 0, words: stdout + stderr }),
    (error: { code: number; stdout: string; stderr: string }) => ({
      code: error.code,
      words: error.stdout + error.stderr,
    }),
  );
  return { ...result, calls: (await readFile(calls, 'utf8')).split('\n').filter(Boolean) };
}

const PASSWORD = `it's $HOME%20:/@#?&;*\`id\`!`.replaceAll(' ', '');

test('the schema script makes both databases, with the password as it is', async () => {
  const { code, calls } = await setUpSchema(PASSWORD, 0);
  expect(code).toBe(0);
  const steps = (database: string, schema: string) => [
    `${PASSWORD}|--db ${database} create-database`,
    `${PASSWORD}|--db ${database} setup-schema --version 0.0`,
    `${PASSWORD}|--db ${database} update-schema --schema-dir /schema/${schema}/versioned`,
  ];
  expect(calls).toEqual([...steps('temporal', 'temporal'), ...steps('temporal_visibility', 'visibility')]);
});

test('a password that the Temporal server’s configuration can’t take is refused before anything is made', async () => {
  for (const password of ['', 'with"quote', 'with\\backslash', 'with space', 'with\ttab', 'ends with\n']) {
    const { code, calls, words } = await setUpSchema(password, 0);
    expect([code, calls], password).toEqual([1, []]);
    expect(words).toContain('POSTGRES_PASSWORD must be set, without ", \\ and white space');
  }
});
