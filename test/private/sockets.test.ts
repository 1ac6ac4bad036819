import { once } from 'node:events';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import { expect, test } from 'vitest';
import { resetWhenDestroyed } from '../../src/upstream/private.js';

/** How the other end sees the end of a connection that is destroyed. */
async function endOf(prepare: (socket: Socket) => void): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => {});
  const [accepted] = (await once(server, 'connection')) as [Socket];
  if (socket.connecting) await once(socket, 'connect');
  prepare(socket);
  const ended = new Promise<string>((resolve) => {
    accepted
      .once('end', () => resolve('FIN'))
      .once('error', ({ code }: NodeJS.ErrnoException) => resolve(String(code)));
  });
  accepted.resume();
  socket.destroy();
  const seen = await ended;
  accepted.destroy();
  server.close();
  return seen;
}

test('a socket that is destroyed sends FIN and takes no SO_LINGER, but is reset by the workaround', async () => {
  expect(Object.keys(Socket.prototype).filter((name) => /linger/i.test(name))).toEqual([]);
  expect(await endOf(() => {})).toBe('FIN');
  expect(await endOf(resetWhenDestroyed)).toBe('ECONNRESET');
});
