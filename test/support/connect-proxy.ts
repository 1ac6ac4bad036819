/** An HTTP proxy that knows CONNECT alone: whatever host it is asked for, it leads to one server. */
import { createServer } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';

export interface ConnectProxy {
  port: number;
  /** What was asked for, with its credentials; each once, in order. */
  asked: { target: string; credentials: string | null }[];
  close: () => Promise<void>;
}

/** With `status` it opens no tunnel. */
export async function startConnectProxy(address: string, status?: number): Promise<ConnectProxy> {
  const asked: ConnectProxy['asked'] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket.on('error', () => {}).once('close', () => sockets.delete(socket)));
  };
  const [, host, port] = /^(.*):(\d+)$/.exec(address)!;
  const server = createServer().on('connect', ({ url, headers }, socket: Socket) => {
    keep(socket);
    const [, basic] = /^Basic (.+)$/i.exec(headers['proxy-authorization'] ?? '') ?? [];
    asked.push({ target: url!, credentials: basic === undefined ? null : Buffer.from(basic, 'base64').toString() });
    if (status !== undefined) return socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
    keep(onward);
    return socket.once('close', () => onward.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port: (server.address() as AddressInfo).port, asked, close };
}
