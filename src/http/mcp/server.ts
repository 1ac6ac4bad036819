/** The Model Context Protocol over the tools: each answer is the body of the HTTP answer, with what to do next. */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type CallToolResult,
  createMcpHandler,
  McpServer,
  type ServerContext,
  type StandardSchemaWithJSON,
} from '@modelcontextprotocol/server';
import { firstOf } from '../../client/concurrently.js';
import type { JsonSchema } from '../../contract/kinds.js';
import { STREAM_MS } from '../events.js';
import { Problem, problemOf } from '../problem.js';
import type { Answer, Call } from '../request.js';
import { callTool, DEFAULT_WAIT_MS, TOOLS } from './tools.js';

type Tool = (typeof TOOLS)[number];
type ToolCall = Parameters<typeof callTool>[1];

/** For whom, and who is told what is wrong here; never with a key or a prompt. */
interface McpService extends Pick<ToolCall, 'caller' | 'ending'> {
  /** Rejects while Temporal is away: each call tries again. */
  connect: () => Promise<ToolCall['jobs']>;
  maxWaitMs?: number | undefined;
  version: string;
  onProblem: (problem: string) => void;
}

/** Answers a request over HTTP, which stands alone: any server may answer the next one. */
export async function serveMcp(call: Call): Promise<Answer | null> {
  const { service, request, response, args: body, gone, ending } = call;
  checkOrigin(request.headers);
  // A tool may wait longer than any other call.
  request.socket.setTimeout(0);
  // A stream of notifications has no end of its own: it ends as a stream of events does.
  const isStream = body['method'] === 'subscriptions/listen';
  const { signal, release } = firstOf(isStream ? [gone, ending, AbortSignal.timeout(STREAM_MS)] : [gone]);
  const connect = () => Promise.resolve(call.jobs);
  const protocol = createMcpHandler(() =>
    mcpServer({ ...service, ...call, connect, maxWaitMs: service.maxToolWaitMs }),
  );
  // One value each, as the protocol has them.
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const given = new Request('http://localhost/mcp', { method: 'POST', headers, body: JSON.stringify(body), signal });
  const answer = await protocol.fetch(given, { parsedBody: body });
  response.writeHead(answer.status, {
    ...Object.fromEntries(answer.headers),
    'cache-control': 'no-store',
    connection: 'close',
  });
  try {
    if (answer.body) await pipeline(Readable.fromWeb(answer.body as never), response, { signal: gone });
    else response.end();
  } finally {
    release();
  }
  return null;
}

/** The protocol asks for it: no page of another site may call tools. Throws a problem 403. */
function checkOrigin({ origin, host }: IncomingHttpHeaders): void {
  if (origin === undefined) return;
  // Each of the two may name a port that the other leaves out.
  const [scheme] = /^https?:\/\//.exec(origin) ?? [];
  const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : null);
  if (scheme !== undefined && host !== undefined && hostOf(origin) === hostOf(scheme + host)) return;
  throw new Problem(403, 'the header Origin names another site');
}

/** Makes the server of one connection, or of one request over HTTP. */
export function mcpServer(service: McpService): McpServer {
  const server = new McpServer({ name: 'agent-jobs', version: service.version }, { capabilities: { tools: {} } });
  for (const tool of TOOLS) {
    const { name, title, description, input, isReadOnly: readOnlyHint, isIdempotent: idempotentHint } = tool;
    const annotations = { readOnlyHint, destructiveHint: false, idempotentHint };
    const config = { title, description, inputSchema: unchecked(input), annotations };
    server.registerTool(name, config, (args, context) => answer(service, tool, args, context));
  }
  return server;
}

/** Tells agents the schema and checks nothing: the tool does, and says what to do. */
function unchecked(schema: JsonSchema): StandardSchemaWithJSON<Record<string, unknown>> {
  const told = () => schema as Record<string, unknown>;
  const validate = (value: unknown) => ({ value: value as Record<string, unknown> });
  return { '~standard': { version: 1, vendor: 'agent-jobs', validate, jsonSchema: { input: told, output: told } } };
}

async function answer(
  { maxWaitMs = DEFAULT_WAIT_MS, ...service }: McpService,
  tool: Tool,
  args: Record<string, unknown>,
  { mcpReq: request }: ServerContext,
): Promise<CallToolResult> {
  const waiting = { maxWaitMs, gone: request.signal };
  try {
    const call = { ...service, ...waiting, jobs: await service.connect(), args };
    const body = await callTool(tool, call);
    return { content: [text(JSON.stringify(body))], structuredContent: { ...body } };
  } catch (error) {
    const problem = problemOf(error);
    if (problem === null && !request.signal.aborted) {
      service.onProblem(`a tool failed: ${(error as Error)?.stack ?? String(error)}`);
    }
    const { body, message } = problem ?? new Problem(500, 'an error of this server, which its log tells');
    return { isError: true, content: [text(message)], structuredContent: { ...body } };
  }
}

function text(text: string): { type: 'text'; text: string } {
  return { type: 'text', text };
}
