import { createServer } from 'node:net';

// Below the range from which the system takes ports for outgoing connections (32768 and up on Linux).
const LOWEST = 20_000;
const HIGHEST = 32_000;
const TRIES = 200;
const MOST_STARTS = 5;

/** A free TCP port of the loopback address, the preferred one where nobody has it, and none of those already chosen. */
export async function freePort(preferred?: number, chosen: readonly number[] = []): Promise<number> {
  if (preferred !== undefined && !chosen.includes(preferred) && (await isFree(preferred))) return preferred;
  for (let i = 0; i < TRIES; i++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (!chosen.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`No free port found between ${LOWEST} and ${HIGHEST} in ${TRIES} tries`);
}

/** Starts a server on a free port, and on another where somebody was faster to take that one. */
export async function startOnFreePort<T>(preferred: number, start: (port: number) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await start(await freePort(preferred));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || tries === MOST_STARTS) throw error;
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
