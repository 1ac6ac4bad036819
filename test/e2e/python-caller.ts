/** A Python program that makes calls of the example's client, and a slow network for it. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('python_caller.py', import.meta.url));

/** What one call is: its name, its key, the text that it hands on, and the id of a follow-up. */
type Call = [name: 'start' | 'attach' | 'followUp', key: string, text: string, id?: string];

/** The answer to a call: what it returned, or the name of its error. */
interface Answer {
  isNew?: boolean;
  state?: string;
  error?: string;
  id?: string;
}

/** One program for all calls, since each start of Python with Temporal's SDK costs a second. */
export class PythonCaller {
  readonly #program: ChildProcessByStdio<Writable, Readable, null>;
  readonly #pending = new Map<number, (answer: Answer) => void>();
  #calls = 0;

  constructor(env: NodeJS.ProcessEnv) {
    this.#program = spawn('python3', [PROGRAM], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#program.stdout }).on('line', (line) => {
      const { number, answer } = JSON.parse(line) as { number: number; answer: Answer };
      this.#pending.get(number)?.(answer);
    });
  }

  call(args: Call, address: string, { codec = false } = {}): { answer: Promise<Answer>; giveUp: () => void } {
    const number = (this.#calls += 1);
    const answer = new Promise<Answer>((resolve) => this.#pending.set(number, resolve));
    this.#write({ number, args, address, codec });
    return { answer, giveUp: () => this.#write({ giveUp: number }) };
  }

  async end(): Promise<void> {
    this.#program.stdin.end();
    await once(this.#program, 'close');
  }

  #write(line: object): void {
    this.#program.stdin.write(`${JSON.stringify(line)}\n`);
  }
}

const ONE_WAY_MS = 75;

/** A way to a server that hands each chunk on later, in both directions. */
export async function slowProxy(target: string): Promise<{ address: string; close: () => void }> {
  const [host, port] = target.split(':');
  const sockets = new Set<Socket>();
  const handOn = (from: Socket, to: Socket) => {
    sockets.add(from);
    from.setNoDelay();
    from.on('data', (chunk) => setTimeout(() => to.writable && to.write(chunk), ONE_WAY_MS));
    from.on('error', () => {});
    from.on('close', () => to.destroy());
  };
  const server = createServer((caller) => {
    const upstream = connect(Number(port), host);
    handOn(caller, upstream);
    handOn(upstream, caller);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}
