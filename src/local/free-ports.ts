import { createServer } from 'node:net';

// Below the range from which the system takes ports for outgoing connections (32768 and up on Linux).
const MIN_PORT = 20_000;
const MAX_PORT = 32_000;
const MAX_TRIES = 200;
const MAX_STARTS = 5;

/** A free TCP port of the loopback address: the preferred one where it is free, and none of those already chosen. */
export async function freePort(preferred?: number, chosen: readonly number[] = []): Promise<number> {
  if (preferred !== undefined && !chosen.includes(preferred) && (await isFree(preferred))) return preferred;
  for (let i = 0; i < MAX_TRIES; i++) {
    const port = MIN_PORT + Math.floor(Math.random() * (MAX_PORT - MIN_PORT));
    if (!chosen.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`No free port found between ${MIN_PORT} and ${MAX_PORT} in ${MAX_TRIES} tries`);
}

/** Starts a server on a free port, and on another where that one was taken in between. */
export async function startOnFreePort<T>(preferred: number, start: (port: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(await freePort(preferred));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || attempt === MAX_STARTS) throw error;
    }
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
