import { createServer } from 'node:net';

// Below the range from which the system takes ports for outgoing connections (32768 and up on Linux).
const LOWEST = 20_000;
const HIGHEST = 32_000;
const TRIES = 200;

/** A free TCP port of the loopback address, the preferred one where nobody has it, and none of those already chosen. */
export async function freePort(preferred?: number, chosen: readonly number[] = []): Promise<number> {
  if (preferred !== undefined && !chosen.includes(preferred) && (await isFree(preferred))) return preferred;
  for (let i = 0; i < TRIES; i++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (!chosen.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`No free port found between ${LOWEST} and ${HIGHEST} in ${TRIES} tries`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
