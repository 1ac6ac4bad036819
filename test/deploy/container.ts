/**
 * Runs a container of a manifest without a container runtime: a root file system of its own that is read-only, the
 * user, group and capabilities of the manifest, its mounts, its environment and no other. It shares network, processes
 * and kernel settings with this machine, and has no seccomp profile. It needs root and Linux.
 */
import { execFile, spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestContext } from 'vitest';
import type { PodSpec } from './manifests.js';

const run = promisify(execFile);
const PROJECT_FOLDER = fileURLToPath(new URL('../../', import.meta.url));
/** What the image has of its base, and what it is built of. */
const SYSTEM_FOLDERS = ['usr', 'lib', 'lib64', 'bin', 'etc'];
const IMAGE_PARTS = ['package.json', 'node_modules', 'dist', 'packages', 'docs/contract'];

/** Skips where this machine does not allow what a container needs. */
export async function needContainers(context: Pick<TestContext, 'skip'>): Promise<void> {
  const isAllowed =
    process.getuid?.() === 0 &&
    (await run('unshare', ['--mount', 'true']).then(
      () => true,
      () => false,
    ));
  if (isAllowed) return;
  const text = 'NOT TESTED: the containers of the manifests need root on Linux, and unshare';
  console.warn(text);
  context.skip(text);
}

export interface ContainerOptions {
  /** An empty folder of the test, for mounts. */
  folder: string;
  pod: PodSpec;
  /** The content of each Secret, by entry. */
  secrets: Record<string, Record<string, string>>;
  /** In the place of what the manifest says. */
  env?: Record<string, string>;
  /** In the place of the container's arguments. */
  args?: string[];
  /** Folders of this machine at paths in the container, to be written to. */
  writable?: Record<string, string>;
}

export interface RunningContainer {
  output: () => string;
  signal: (signal: NodeJS.Signals) => void;
  ended: Promise<number | null>;
}

/** Starts the only container of a pod. */
export function startContainer(options: ContainerOptions): RunningContainer {
  const { pod, folder, env = {}, args } = options;
  const [container] = pod.containers;
  const { runAsUser, runAsGroup, fsGroup } = pod.securityContext as Record<string, number>;
  mkdirSync(join(folder, 'root'));
  const settings = {
    ...imageEnv(),
    ...Object.fromEntries(container!.env.map(({ name, value }) => [name, value!])),
    ...env,
  };
  const program = [
    ...['setpriv', '--reuid', String(runAsUser), '--regid', String(runAsGroup), '--groups', String(fsGroup)],
    ...['--bounding-set=-all', '--inh-caps=-all', '--no-new-privs'],
    ...['env', '-i', '-C', '/app', 'PATH=/usr/bin', ...Object.entries(settings).map((pair) => pair.join('='))],
    // The image's entry point.
    ...['/node', ...(args ?? container!.args ?? imageCommand())],
  ];
  const script = [
    'set -e',
    ...mountsOf(options),
    'mount -o remount,ro,bind "$ROOT"',
    `exec chroot "$ROOT" ${program.map(quoted).join(' ')}`,
  ].join('\n');
  const shellEnv = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ROOT: join(folder, 'root') };
  // Each program takes the place of the one before: a signal reaches Node.
  const child = spawn('unshare', ['--mount', 'sh', '-c', script], { env: shellEnv, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { output: () => output, signal: (signal) => void child.kill(signal), ended };
}

/** The commands that make the file system of the container below $ROOT. */
function mountsOf({ folder, pod, secrets, writable = {} }: ContainerOptions): string[] {
  const [container] = pod.containers;
  const mounts = container!.volumeMounts.map(({ name, mountPath }) => {
    const { secret } = pod.volumes.find((volume) => volume.name === name)!;
    if (!secret) return at(mountPath, `mount -t tmpfs -o mode=1777,size=256m tmpfs "$ROOT${mountPath}"`);
    const source = writeSecret(join(folder, name), secrets[secret.secretName] ?? {}, pod);
    return at(mountPath, readOnly(source, mountPath));
  });
  return [
    'mount -t tmpfs -o mode=755 tmpfs "$ROOT"',
    ...SYSTEM_FOLDERS.map((name) => `if [ -e /${name} ]; then ${at(`/${name}`, readOnly(`/${name}`, `/${name}`))}; fi`),
    ...['proc', 'dev'].map((name) => at(`/${name}`, `mount --rbind /${name} "$ROOT/${name}"`)),
    `touch "$ROOT/node"; ${readOnly(process.execPath, '/node')}`,
    'mkdir "$ROOT/app"',
    ...IMAGE_PARTS.map((name) => {
      const make = name.includes('.') ? `touch "$ROOT/app/${name}"` : `mkdir -p "$ROOT/app/${name}"`;
      return `${make}; ${readOnly(join(PROJECT_FOLDER, name), `/app/${name}`)}`;
    }),
    ...mounts,
    ...Object.entries(writable).map(([path, source]) => at(path, `mount --bind ${quoted(source)} "$ROOT${path}"`)),
  ];
}

const at = (path: string, mount: string) => `mkdir -p "$ROOT${path}"; ${mount}`;
const readOnly = (source: string, path: string) =>
  `mount --bind ${quoted(source)} "$ROOT${path}"; mount -o remount,bind,ro "$ROOT${path}"`;
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** As the kubelet lays a Secret out: entries are links to a folder that is replaced as one. */
function writeSecret(path: string, entries: Record<string, string>, { securityContext, volumes }: PodSpec): string {
  const group = securityContext['fsGroup'] as number;
  const mode = volumes.find(({ secret }) => secret)!.secret!.defaultMode;
  mkdirSync(join(path, '..first'), { recursive: true, mode: 0o755 });
  symlinkSync('..first', join(path, '..data'));
  for (const [name, text] of Object.entries(entries)) {
    const file = join(path, '..first', name);
    writeFileSync(file, text);
    chownSync(file, 0, group);
    chmodSync(file, mode);
    symlinkSync(join('..data', name), join(path, name));
  }
  return path;
}

const dockerfile = readFileSync(join(PROJECT_FOLDER, 'Dockerfile'), 'utf8')
  .split(/^FROM /m)
  .at(-1)!;

function imageCommand(): string[] {
  return JSON.parse(/^CMD (\[.*\])$/m.exec(dockerfile)![1]!) as string[];
}

function imageEnv(): Record<string, string> {
  const [, lines] = /^ENV ((?:.*\\\n)*.*)$/m.exec(dockerfile)!;
  return Object.fromEntries(lines!.split(/\\\n/).map((line) => line.trim().split('=') as [string, string]));
}
