/**
 * Runs the shell blocks of a page of docs/ as they are written, with the programs that they name: `temporal`, and an
 * `agent-jobs` that has its work done in the process of the test, where it costs a tenth.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInProcess } from '../cli/run-in-process.js';
import { shared } from './shared.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FENCE = /^( *)```sh\n([\s\S]*?)^ *```$/gm;

/** A page, its shell blocks in order, and a folder of their own to run them in. */
export class Runbook {
  readonly folder = mkdtempSync(join(tmpdir(), 'agent-jobs-runbook-'));
  readonly #blocks: string[];
  readonly #ran = new Set<string>();
  readonly #env: Record<string, string>;

  private constructor(page: string, env: Record<string, string>) {
    this.#blocks = shellBlocks(readFileSync(join(ROOT, page), 'utf8'));
    this.#env = { ...env };
  }

  /** Makes `agent-jobs` and `temporal` programs of the folder, for blocks with this environment and no other. */
  static async open(page: string, env: Record<string, string>): Promise<Runbook> {
    const runbook = new Runbook(page, env);
    const { path } = await shared('dev-server-program');
    runbook.write('ask.mjs', ASK);
    const socket = join(runbook.folder, 'commands');
    await answerCommands(socket);
    runbook.#addProgram('agent-jobs', `"${process.execPath}" "${join(runbook.folder, 'ask.mjs')}" "${socket}"`);
    runbook.#addProgram('temporal', `"${path}"`);
    return runbook;
  }

  /**
   * Runs the one block that holds the text, and answers with its standard output. Throws if a command of it
   * fails; given further exit codes, a command may end with one of them.
   */
  async run(text: string, { mayEndWith = [] }: { mayEndWith?: readonly number[] } = {}): Promise<string> {
    const allowed = `case $? in ${[0, ...mayEndWith].join('|')}) ;; *) exit 1 ;; esac`;
    return this.shell(`set +e\ntrap '${allowed}' ERR\n${this.#blockWith(text)}\ntrue`);
  }

  /** Runs the one block that holds the text, and answers with this variable that it exports. */
  async variable(name: string, text: string): Promise<string> {
    return (await this.shell(`${this.#blockWith(text)}\nprintenv ${name}`)).trim();
  }

  /** Runs a script that is not on the page. */
  shell(script: string): Promise<string> {
    const PATH = `${this.folder}:${process.env['PATH'] ?? ''}`;
    const options = { cwd: this.folder, env: { PATH, HOME: this.folder, ...this.#env }, timeout: 120_000 };
    return new Promise((resolve, reject) => {
      execFile('bash', ['--norc', '-euo', 'pipefail', '-c', script], options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new Error(`${script}\n${error.message}\n${stdout}\n${stderr}`));
      });
    });
  }

  /** The first lines of the blocks that were not run. */
  get left(): string[] {
    const left = this.#blocks.filter((block) => !this.#ran.has(block));
    return left.map((block) => block.split('\n')[0] ?? '');
  }

  /** Adds to the environment of all blocks. */
  set(env: Record<string, string>): void {
    Object.assign(this.#env, env);
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  read(name: string): string {
    return readFileSync(join(this.folder, name), 'utf8');
  }

  #blockWith(text: string): string {
    const [block, another] = this.#blocks.filter((each) => each.includes(text));
    if (block === undefined || another !== undefined) throw new Error(`not one block of the page holds "${text}"`);
    this.#ran.add(block);
    return block;
  }

  #addProgram(name: string, command: string): void {
    writeFileSync(join(this.folder, name), `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
  }
}

/** Runs a command, and answers with its output. */
const ASK = `import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
const [, , path, ...args] = process.argv;
const socket = connect(path);
socket.end(JSON.stringify({ args, env: process.env, cwd: process.cwd() }));
const { code, stdout, stderr } = JSON.parse(await text(socket));
process.stdout.write(stdout);
process.stderr.write(stderr);
process.exitCode = code;
`;

/** Runs each command that comes, while this process is there. */
async function answerCommands(path: string): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let given = '';
    socket.on('data', (chunk: Buffer) => (given += chunk.toString()));
    socket.on('end', () => {
      const { args, env, cwd } = JSON.parse(given) as { args: string[]; env: Record<string, string>; cwd: string };
      runInProcess(args, { env, cwd }).then(
        (run) => socket.end(JSON.stringify(run)),
        (error: Error) => socket.destroy(error),
      );
    });
  });
  server.unref();
  await new Promise<void>((resolve) => server.listen(path, resolve));
}

/** Without the indent that a list gives them. */
function shellBlocks(page: string): string[] {
  return [...page.matchAll(FENCE)].map(([, indent = '', text = '']) =>
    text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );
}
