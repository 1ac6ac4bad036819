/**
 * A codec server for Temporal's web UI and command line: it decrypts what a file of payload keys encrypts, so that
 * neither of them has a key. It speaks Temporal's codec protocol, POST /decode and POST /encode. Its settings:
 *
 * PAYLOAD_KEYS_FILE  the file of keys of the workers
 * CODEC_TOKEN_FILE   a file with the token that every user needs: openssl rand -base64 32
 * WEB_UI_ORIGIN      the web UI whose pages may ask; default http://localhost:8233
 * HOST, PORT         default 127.0.0.1 and 8235; put a proxy with TLS in front before HOST is another one
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { openPayloadCodec } from 'agent-jobs/codec';

const { env } = process;
const { PAYLOAD_KEYS_FILE, CODEC_TOKEN_FILE, HOST = '127.0.0.1', PORT = '8235' } = env;
const { WEB_UI_ORIGIN = 'http://localhost:8233' } = env;
const COOKIE = 'codec-server';
const COOKIE_SECONDS = 12 * 3_600;
/** Temporal answers with 4 MB at most, which base64 makes longer. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;

const codec = openPayloadCodec(PAYLOAD_KEYS_FILE);
const token = readToken();

function readToken() {
  if (!CODEC_TOKEN_FILE) throw new Error('CODEC_TOKEN_FILE is not set');
  const text = readFileSync(CODEC_TOKEN_FILE, 'utf8').trim();
  if (text.length < 32) throw new Error('the token of CODEC_TOKEN_FILE has fewer than 32 characters');
  return text;
}

/** An answer that is an error. Its message holds nothing of the request. */
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(request, response) {
  const { method, headers } = request;
  const path = request.url.split('?', 1)[0];
  if (path === '/') return signIn(request, response);
  if (path !== '/encode' && path !== '/decode') throw new Refusal(404, 'there are /encode, /decode and / to sign in');
  response.setHeader('vary', 'origin');
  // A browser names the origin of the page that asks. Other programs name none.
  if (headers.origin !== undefined) {
    if (headers.origin !== WEB_UI_ORIGIN) throw new Refusal(403, `only pages of ${WEB_UI_ORIGIN} may ask`);
    response.setHeader('access-control-allow-origin', WEB_UI_ORIGIN);
    response.setHeader('access-control-allow-credentials', 'true');
  }
  if (method === 'OPTIONS') {
    response.setHeader('access-control-allow-methods', 'POST');
    response.setHeader('access-control-allow-headers', 'authorization, content-type, x-namespace');
    return response.writeHead(204).end();
  }
  if (method !== 'POST') throw new Refusal(405, `${path} takes POST`);
  if (!isAuthorized(headers)) throw new Refusal(401, 'send "Authorization: Bearer" and the token, or sign in at /');
  const payloads = toPayloads(await readBody(request));
  const converted = await (path === '/encode' ? codec.encode(payloads) : codec.decode(payloads));
  response.writeHead(200, { 'content-type': 'application/json' }).end(toJson(converted));
}

/** The cookie counts only for pages of the web UI. */
function isAuthorized({ authorization, cookie, origin }) {
  const bearer = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (bearer !== undefined) return isSame(bearer, token);
  const cookies = (cookie ?? '').split('; ').filter((one) => one.startsWith(`${COOKIE}=`));
  return origin !== undefined && cookies.some((one) => isSame(one.slice(COOKIE.length + 1), cookieOf(token)));
}

/** A browser signs in on a page of this server, so that the web UI never sees the token. */
async function signIn(request, response) {
  let [status, text] = [200, 'Sign in to read encrypted jobs.'];
  if (request.method === 'POST') {
    const given = new URLSearchParams(await readBody(request)).get('token')?.trim() ?? '';
    const isRight = isSame(given, token);
    [status, text] = isRight ? [200, 'Signed in. Reload the page of the web UI.'] : [401, 'This is not the token.'];
    const secure = WEB_UI_ORIGIN.startsWith('https:') ? '; Secure' : '';
    const attributes = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${COOKIE_SECONDS}${secure}`;
    if (isRight) response.setHeader('set-cookie', `${COOKIE}=${cookieOf(token)}; ${attributes}`);
  }
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
  });
  response.end(`<!doctype html><title>Codec server</title><h1>Codec server</h1><p>${text}</p>
<form method="post"><label>Token <input name="token" type="password"></label> <button>Sign in</button></form>`);
}

function cookieOf(text) {
  return createHmac('sha256', text).update('cookie of the codec server').digest('base64url');
}

/** Takes as long whether few or many characters are the same. */
function isSame(given, wanted) {
  const hash = (text) => createHmac('sha256', token).update(text).digest();
  return timingSafeEqual(hash(given), hash(wanted));
}

async function readBody(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new Refusal(413, `the body has more than ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Reads `{"payloads": [{"metadata": {…}, "data": "…"}]}`, where every value is base64. */
function toPayloads(text) {
  const fromBase64 = (value) => Buffer.from(String(value), 'base64');
  try {
    return JSON.parse(text).payloads.map(({ metadata, data }) => ({
      metadata: mapValues(metadata ?? {}, fromBase64),
      data: fromBase64(data ?? ''),
    }));
  } catch {
    throw new Refusal(400, 'the body is not {"payloads": […]} with values in base64');
  }
}

function toJson(payloads) {
  const toBase64 = (bytes) => Buffer.from(bytes ?? []).toString('base64');
  return JSON.stringify({
    payloads: payloads.map(({ metadata, data }) => ({ metadata: mapValues(metadata, toBase64), data: toBase64(data) })),
  });
}

function mapValues(values, change) {
  return Object.fromEntries(Object.entries(values ?? {}).map(([name, value]) => [name, change(value)]));
}

const server = createServer({ headersTimeout: 10_000, requestTimeout: 30_000 }, (request, response) => {
  response.setHeader('cache-control', 'no-store');
  answer(request, response).catch((error) => {
    request.resume();
    // The codec's own errors report a payload that can't be decrypted, and hold nothing of it.
    response.writeHead(error.status ?? 400, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: error.message }));
  });
});
server.listen(Number(PORT), HOST, () => console.log(`Codec server: http://${HOST}:${server.address().port}`));
