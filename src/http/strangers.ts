/** Connections that have shown no known key: how many there may be, and which goes when one too many comes. */
import type { Socket } from 'node:net';
import type { Limits } from './limits.js';

/** All of a server. */
export class Strangers {
  readonly #limits: Limits;
  /** The networks that they come from, the longest silent first. */
  readonly #networkOf = new Map<Socket, string>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Takes a new connection, and cuts another one if that is one too many. */
  add(socket: Socket): void {
    const network = networkOf(socket.remoteAddress ?? '');
    this.#networkOf.set(socket, network);
    socket.once('close', () => this.forget(socket));
    const { strangers, strangersPerAddress: max } = this.#limits;
    const all = [...this.#networkOf.keys()];
    const near = all.filter((other) => this.#networkOf.get(other) === network);
    const isOver = max > 0 && near.length > max;
    if (!isOver && all.length <= strangers) return;
    const [cut] = isOver ? near : all;
    this.forget(cut!);
    cut!.destroy();
  }

  /** A request came on it: others have been silent for longer. */
  heard(socket: Socket): void {
    const network = this.#networkOf.get(socket);
    if (this.#networkOf.delete(socket)) this.#networkOf.set(socket, network!);
  }

  /** One that has shown a known key counts no longer. */
  forget(socket: Socket): void {
    this.#networkOf.delete(socket);
  }
}

/** The addresses that one caller has: one of IPv4, a /64 of IPv6. */
export function networkOf(address: string): string {
  const [, ipv4] = /^(?:::ffff:)?([\d.]+)$/i.exec(address) ?? [];
  if (ipv4 !== undefined) return ipv4;
  const [left = [], right] = address
    .replace(/%.*/, '')
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  const zeros = right ? Array.from({ length: 8 - left.length - right.length }, () => '0') : [];
  return [...left, ...zeros, ...(right ?? [])].slice(0, 4).join(':');
}
