import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { resetConnection } from './http.js';
import type { Faults } from './armed-faults.js';

export interface ConnectionCount {
  /** Connections of the upstream's callers since the start; those that only carry control requests do not count. */
  opened: number;
  /** Of these, reset before anything was read. */
  reset: number;
  /** Open now, control included. */
  open: number;
}

interface Connection {
  number: number;
  requests: number;
}

/** Numbers the connections of a server and resets those that a fault at `connect` picks. */
export class Connections {
  readonly #known = new WeakMap<Socket, Connection>();
  readonly #sockets = new Set<Socket>();
  #opened = 0;
  #reset = 0;

  constructor(server: Server, faults: Faults) {
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      if (!faults.pick('connect')) return;
      this.#opened++;
      this.#reset++;
      resetConnection(socket);
    });
  }

  /** Counts one more request of the interface on its connection. */
  use(socket: Socket): Connection {
    let connection = this.#known.get(socket);
    if (!connection) this.#known.set(socket, (connection = { number: ++this.#opened, requests: 0 }));
    connection.requests++;
    return connection;
  }

  counts(): ConnectionCount {
    return { opened: this.#opened, reset: this.#reset, open: this.#sockets.size };
  }

  /** Resets every connection, those of hanging requests included. */
  resetAll(): void {
    for (const socket of this.#sockets) resetConnection(socket);
  }
}
