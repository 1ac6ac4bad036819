import type { IncomingMessage } from 'node:http';

/** More than any prompt needs, little enough to read whole. */
const MOST_BYTES = 8 * 1024 * 1024;

/** The whole body; undefined where the peer went away before its end. `onBytes` hears how much has come. */
export function readBody(
  request: IncomingMessage,
  onBytes?: (bytes: number) => void,
): Promise<Buffer | 'too large' | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      onBytes?.(bytes);
      if (bytes > MOST_BYTES) resolve('too large');
      else chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    request.on('error', () => resolve(undefined));
    request.on('close', () => resolve(undefined));
  });
}
