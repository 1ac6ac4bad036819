/**
 * Temporal's codec protocol over HTTP: POST /encode and /decode, whatever stands before in the path, and a page to sign
 * in. A request is refused before its body is read. No payload, key or token gets into an answer that says what was
 * wrong.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import type { PayloadCodec } from '@temporalio/common';
import { isObject } from '../contract/shared.js';

/** What a codec server serves, and to whom. */
export interface CodecService {
  codec: PayloadCodec;
  /** The only namespace whose payloads it takes. */
  namespace: string;
  /** Of the web UI: pages of other origins are refused. */
  origins: readonly string[];
  /** The token as it is now; throws where there is none. */
  token: () => Promise<string>;
  /** Told what is wrong here, not with a request. */
  onProblem: (problem: string) => void;
}

/** Bounds the memory of one request: the 4 MB that Temporal answers with at most, in base64, and room. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const MAX_FORM_BYTES = 4_096;
const MAX_CONNECTIONS = 256;
const PREFLIGHT = {
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'authorization, content-type, x-namespace',
  'access-control-max-age': '600',
};

/** An answer that is an error; the message holds nothing of the request. */
class Refusal extends Error {
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

/** Makes the server, which listens nowhere yet. */
export function createCodecServer(service: CodecService): Server {
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000 },
    (request, response) => void answer(service, request, response),
  );
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

async function answer(service: CodecService, request: IncomingMessage, response: ServerResponse): Promise<void> {
  response.setHeader('cache-control', 'no-store');
  response.setHeader('x-content-type-options', 'nosniff');
  try {
    await route(service, request, response);
  } catch (error) {
    request.resume();
    if (response.headersSent) return;
    // What the codec says is the request's fault.
    const { status, message, headers } = error instanceof Refusal ? error : new Refusal(400, (error as Error).message);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(`${JSON.stringify({ error: message })}\n`);
  }
}

/** Only the last part of the path counts. */
async function route(service: CodecService, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const name = (request.url ?? '').split('?', 1)[0]!.split('/').at(-1);
  if (name === '') return signIn(service, request, response);
  if (name !== 'encode' && name !== 'decode') throw new Refusal(404, 'there are /encode, /decode and / to sign in');
  allowOrigin(service, request, response);
  if (request.method === 'OPTIONS') return void response.writeHead(204, PREFLIGHT).end();
  if (request.method !== 'POST') throw new Refusal(405, `/${name} takes POST`, { allow: 'POST, OPTIONS' });
  await checkAccess(service, request);
  checkNamespace(service, request.headers['x-namespace']);
  checkType(request, 'application/json');
  const payloads = parsePayloads(await readBody(request, MAX_BODY_BYTES));
  const converted = await service.codec[name](payloads);
  response.writeHead(200, { 'content-type': 'application/json' }).end(payloadsText(converted));
}

/** A browser tells its page's origin; other programs have none. */
function allowOrigin({ origins }: CodecService, { headers }: IncomingMessage, response: ServerResponse): void {
  const { origin } = headers;
  response.setHeader('vary', 'origin');
  if (origin === undefined) return;
  if (!origins.includes(origin)) throw new Refusal(403, `pages of this origin may not: only of ${origins.join(', ')}`);
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('access-control-allow-credentials', 'true');
}

/** The cookie counts for pages of the web UI alone. */
async function checkAccess(service: CodecService, { headers }: IncomingMessage): Promise<void> {
  const wanted = await tokenOf(service);
  if (isAuthorized(headers.authorization, wanted)) return;
  if (headers.origin !== undefined && isSignedIn(headers.cookie, wanted)) return;
  const remedy = 'send "Authorization: Bearer" and the token, or sign in at / and let the web UI send cookies';
  throw new Refusal(401, `not signed in: ${remedy}`, { 'www-authenticate': 'Bearer' });
}

function tokenOf({ token, onProblem }: CodecService): Promise<string> {
  return token().catch((error: Error) => {
    onProblem(error.message);
    throw new Refusal(503, 'the codec server has no token: see its log');
  });
}

function checkNamespace({ namespace }: CodecService, given: string | string[] | undefined): void {
  if (given === namespace) return;
  const wrong = given === undefined ? 'the header X-Namespace is missing' : 'the header X-Namespace names another one';
  throw new Refusal(given === undefined ? 400 : 403, `${wrong}: this codec server is for namespace "${namespace}"`);
}

function checkType({ headers }: IncomingMessage, type: string): void {
  if (headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === type) return;
  throw new Refusal(415, `the header Content-Type should be ${type}`);
}

/** The page is of this server's own origin, so that the web UI never sees the token. */
async function signIn(service: CodecService, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method } = request;
  if (method === 'GET' || method === 'HEAD') return sendPage(response, 200, 'Sign in to read encrypted jobs.');
  if (method !== 'POST') throw new Refusal(405, '/ takes GET and POST', { allow: 'GET, HEAD, POST' });
  checkType(request, 'application/x-www-form-urlencoded');
  const form = new URLSearchParams(await readBody(request, MAX_FORM_BYTES));
  const token = await tokenOf(service);
  if (!isSame(form.get('token')?.trim() ?? '', token)) return sendPage(response, 401, 'This is not the token.');
  const isSecure = service.origins.every((origin) => origin.startsWith('https:'));
  response.setHeader('set-cookie', sessionCookie(token, isSecure));
  sendPage(response, 200, 'Signed in. The web UI can decode now: reload its page.');
}

function sendPage(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    'referrer-policy': 'same-origin',
  });
  response.end(`<!doctype html><meta charset="utf-8"><title>Codec server</title><h1>Codec server</h1><p>${text}</p>
<form method="post"><label>Token <input name="token" type="password" autocomplete="current-password"></label>
<button>Sign in</button></form>
`);
}

/** The whole body; one that is too large is told at once. */
async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const tooLarge = new Refusal(413, `the body has more than ${maxBytes} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge;
  const chunks: Buffer[] = [];
  let bytes = 0;
  // A request that were destroyed could not be answered.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLarge;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

type Payload = Parameters<PayloadCodec['decode']>[0][number];

/** Bounds the work of one request; a page of the web UI has hundreds. */
const MAX_PAYLOADS = 10_000;
const BASE64 = /^[\w+/-]*={0,2}$/;

/** The payloads of `{"payloads": […]}`; a refusal says where the body is something else. */
function parsePayloads(text: string): Payload[] {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // The parser's own message would quote the text.
    throw new Refusal(400, 'the body is not valid JSON');
  }
  const { payloads } = asObject(body, 'the body');
  if (!Array.isArray(payloads)) throw new Refusal(400, 'the body has no field payloads: a list');
  if (payloads.length > MAX_PAYLOADS) throw new Refusal(400, `the body has more than ${MAX_PAYLOADS} payloads`);
  return payloads.map((payload: unknown, index) => toPayload(payload, `payloads[${index}]`));
}

/** The same form, of other payloads. */
function payloadsText(payloads: readonly Payload[]): string {
  return JSON.stringify({
    payloads: payloads.map(({ metadata, data }) => ({
      metadata: mapValues(metadata ?? {}, toBase64),
      data: toBase64(data),
    })),
  });
}

function toPayload(value: unknown, place: string): Payload {
  const { metadata, data, ...others } = asObject(value, place);
  // A part that nobody here knows would be lost; an empty one is none.
  if (Object.values(others).some((part) => part != null && part !== '' && !isDeepStrictEqual(part, []))) {
    throw new Refusal(400, `${place} has more than metadata and data`);
  }
  const named = metadata == null ? {} : asObject(metadata, `${place}.metadata`);
  return {
    metadata: mapValues(named, (bytes) => toBytes(bytes, `a value of ${place}.metadata`)),
    data: toBytes(data ?? '', `${place}.data`),
  };
}

function mapValues<T, R>(values: Record<string, T>, change: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]));
}

function asObject(value: unknown, place: string): Record<string, unknown> {
  if (isObject(value)) return value;
  throw new Refusal(400, `${place} is no JSON object`);
}

function toBytes(value: unknown, place: string): Buffer {
  if (typeof value === 'string' && BASE64.test(value)) return Buffer.from(value, 'base64');
  throw new Refusal(400, `${place} is no base64`);
}

function toBase64(bytes: Uint8Array | null | undefined): string {
  return Buffer.from(bytes ?? []).toString('base64');
}

/** A shorter token could be guessed. */
const MIN_TOKEN_CHARACTERS = 32;
/** A person signs in once a day. */
const SESSION_SECONDS = 12 * 3_600;
const COOKIE = 'agent-jobs-codec';

/** Reads the token with each request, so that a new one holds at once; an error holds nothing of it. */
export async function readToken(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`the token file ${path} cannot be read (${error.code})`);
  });
  const token = text.trim();
  if (token.length >= MIN_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(token)) return token;
  const rule = `one line of at least ${MIN_TOKEN_CHARACTERS} visible ASCII characters`;
  throw new Error(`the token file ${path} should hold ${rule}: openssl rand -base64 32`);
}

/** Whether an `Authorization` header holds the token, which is never empty. */
function isAuthorized(header: string | undefined, token: string): boolean {
  const [, given = ''] = /^Bearer +(\S+) *$/i.exec(header ?? '') ?? [];
  return isSame(given, token);
}

/** The `Set-Cookie` header of a sign-in. A page of another site never sends the cookie. */
function sessionCookie(token: string, isSecure: boolean): string {
  const ends = String(Math.floor(Date.now() / 1_000) + SESSION_SECONDS);
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', `Max-Age=${SESSION_SECONDS}`];
  return [`${COOKIE}=${ends}.${signatureOf(ends, token)}`, ...attributes, ...(isSecure ? ['Secure'] : [])].join('; ');
}

/** Whether a `Cookie` header holds a sign-in that has not ended. */
function isSignedIn(header: string | undefined, token: string): boolean {
  const cookies = (header ?? '').split('; ').filter((cookie) => cookie.startsWith(`${COOKIE}=`));
  return cookies.some((cookie) => {
    const [, ends = '', signature = ''] = /^=(\d{1,12})\.([\w-]+)$/.exec(cookie.slice(COOKIE.length)) ?? [];
    return isSame(signature, signatureOf(ends, token)) && Number(ends) * 1_000 > Date.now();
  });
}

function signatureOf(ends: string, token: string): string {
  return createHmac('sha256', token).update(`codec server sign-in until ${ends}`).digest('base64url');
}

/** Whether two texts are the same; the hashes are of one length, and the comparison takes as long for any of them. */
function isSame(given: string, wanted: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(given), hash(wanted));
}
