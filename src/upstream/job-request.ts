import ky from 'ky';
import type { Ending } from './exchange.js';
import type { UpstreamRequest } from './transport.js';

/** Lets ky make the request of a job's call, and `send` carry it out: its ending tells how far the request got, which no Response can. */
export async function sendByKy(
  { url, headers, prompt }: Pick<UpstreamRequest, 'url' | 'headers'> & { prompt: string | undefined },
  send: (request: UpstreamRequest) => Promise<Ending>,
): Promise<Ending> {
  let ending: Ending | undefined;
  await ky(url, {
    method: prompt === undefined ? 'GET' : 'POST',
    headers,
    ...(prompt !== undefined && { json: { prompt } }),
    redirect: 'manual',
    retry: 0,
    throwHttpErrors: false,
    timeout: false,
    fetch: async (input) => {
      ending = await send(await toUpstreamRequest(input as Request));
      return new Response(null);
    },
  });
  return ending!;
}

async function toUpstreamRequest(request: Request): Promise<UpstreamRequest> {
  return {
    url: new URL(request.url),
    headers: Object.fromEntries(request.headers),
    body: request.body === null ? null : new Uint8Array(await request.arrayBuffer()),
  };
}
