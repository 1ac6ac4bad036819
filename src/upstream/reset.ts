/**
 * Ending a TCP connection with a reset (RST), as `SO_LINGER` with 0 does. A closed socket leaves its send buffer to the kernel, which
 * goes on to deliver it for up to two minutes, after the write was judged and even after this process has ended.
 */
import type { Socket } from 'node:net';

/** From now on whatever destroys the TCP socket, undici and TLS on top of it included, resets the connection. */
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

/** Keeps a socket (TLS included) from sending FIN by a shutdown: libuv refuses a reset while one is under way. */
export function neverShutDown(socket: Socket): void {
  socket._final = (done) => done();
}
