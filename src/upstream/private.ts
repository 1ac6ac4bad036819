/**
 * Decides how a TCP connection ends: with a reset in place of a FIN.
 *
 * Needs: `destroy` of a socket, which undici and TLS call, and `_final` of a stream, which Node calls before a FIN.
 * Can go when: Node's sockets take `SO_LINGER`.
 * Test: `test/upstream/resets.test.ts`, and `test/private/sockets.test.ts` for Node's own way.
 */
import type { Socket } from 'node:net';

/**
 * Ends a TCP connection with a reset (RST), as `SO_LINGER` with 0 does: from now on whatever destroys the TCP socket,
 * undici and TLS on top of it included, resets the connection. A closed socket leaves its send buffer to the kernel,
 * which delivers it for up to two minutes, after the write was judged and even after this process has ended.
 */
export function resetWhenDestroyed(socket: Socket): void {
  neverShutDown(socket);
  socket.destroy = (error) => {
    // While connecting, nothing was sent.
    if (!socket.destroyed && !socket.connecting) {
      socket.destroy = () => socket; // It would destroy it without the error, or only once all is written.
      socket.resetAndDestroy();
    }
    closeWhenDestroyed(socket);
    return socket.destroy(error);
  };
}

/** Takes `resetWhenDestroyed` back: the connection has done its work and may close. */
export function closeWhenDestroyed(socket: Socket): void {
  Reflect.deleteProperty(socket, 'destroy');
}

/** Keeps a socket (TLS included) from sending FIN by a shutdown: libuv resets none while one is under way. */
export function neverShutDown(socket: Socket): void {
  socket._final = (done) => done();
}
