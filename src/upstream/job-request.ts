import ky from 'ky';
import type { ExchangeResult } from './exchange.js';
import type { UpstreamRequest } from './transport.js';

/**
 * Lets ky make the request of a job's call, and `send` carry it out: its exchange tells how far the request got, which
 * no Response can.
 */
export async function sendByKy(
  { url, headers, prompt }: Pick<UpstreamRequest, 'url' | 'headers'> & { prompt: string | undefined },
  send: (request: UpstreamRequest) => Promise<ExchangeResult>,
): Promise<ExchangeResult> {
  let exchange: ExchangeResult | undefined;
  await ky(url, {
    method: prompt === undefined ? 'GET' : 'POST',
    headers,
    ...(prompt !== undefined && { json: { prompt } }),
    redirect: 'manual',
    retry: 0,
    throwHttpErrors: false,
    timeout: false,
    fetch: async (input) => {
      exchange = await send(await toUpstreamRequest(input as Request));
      return new Response(null);
    },
  });
  return exchange!;
}

async function toUpstreamRequest(request: Request): Promise<UpstreamRequest> {
  return {
    url: new URL(request.url),
    headers: Object.fromEntries(request.headers),
    body: request.body === null ? null : new Uint8Array(await request.arrayBuffer()),
  };
}
