import { copyFile, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { startDevServer, type DevServer } from '../../src/local/dev-server.js';
import { shared } from '../support/shared.js';
import { newFolder } from '../support/folder.js';

/** SQLite's database is these files together. */
const SUFFIXES = ['', '-wal', '-shm'];

/** A dev server on a database file. A copy can be taken while it runs, and put back later. */
export class RestorableServer {
  readonly #folder: string;
  #server!: DevServer;

  static async start(): Promise<RestorableServer> {
    const server = new RestorableServer(newFolder());
    await server.#start();
    return server;
  }

  /** Starts another server on the copy, at another address, while this one goes on. */
  async standby(): Promise<RestorableServer> {
    const server = new RestorableServer(newFolder());
    await this.#copyFiles('copy', 'live', server.#folder);
    await server.#start();
    return server;
  }

  private constructor(folder: string) {
    this.#folder = folder;
  }

  get address(): string {
    return this.#server.address;
  }

  get namespace(): string {
    return this.#server.namespace;
  }

  /** Takes a copy as a snapshot of the disk would: at one instant, whatever the server is doing. */
  async backUp(): Promise<void> {
    process.kill(this.#server.pid, 'SIGSTOP');
    await this.#copyFiles('live', 'copy');
    process.kill(this.#server.pid, 'SIGCONT');
  }

  /** Ends the server and starts it again, at the same address, on the copy. */
  async restore(): Promise<void> {
    const port = Number(this.address.split(':')[1]);
    await this.#server.stop();
    await this.#copyFiles('copy', 'live');
    await this.#start(port);
  }

  async close(): Promise<void> {
    await this.#server.stop();
  }

  async #start(preferredPort?: number): Promise<void> {
    this.#server = await startDevServer({
      program: (await shared('dev-server-program')).path,
      logFile: join(this.#folder, 'dev-server.log'),
      databaseFile: join(this.#folder, 'live.db'),
      dynamicConfig: {
        'history.timerProcessorMaxTimeShift': '"50ms"',
        'system.namespaceCacheRefreshInterval': '"1s"',
      },
      ...(preferredPort === undefined ? {} : { preferredPort }),
    });
  }

  async #copyFiles(from: string, to: string, folder = this.#folder): Promise<void> {
    for (const suffix of SUFFIXES) {
      const [source, target] = [join(this.#folder, `${from}.db${suffix}`), join(folder, `${to}.db${suffix}`)];
      await rm(target, { force: true });
      if (existsSync(source)) await copyFile(source, target);
    }
  }
}
