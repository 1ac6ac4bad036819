import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import * as z from 'zod';
import { jsonResponse, readBody, sendResponse, type HttpResponse } from './http.js';
import type { ControlCommands } from './control-commands.js';
import type { SendCommand } from './control.js';

/** Runs commands in this process, with the same checks and the same copies as over HTTP. */
export function sendInProcess(commands: ControlCommands): SendCommand {
  return async (name, argument) => {
    const command = commands[name as keyof ControlCommands] as (argument: unknown) => unknown;
    return structuredClone(command(structuredClone(argument)));
  };
}

export interface ControlOptions {
  commands: ControlCommands;
  /**
   * Host names with a dot that a request may come under. Addresses, `localhost` and names without a dot always may: no
   * web page's domain is one.
   */
  allowedHosts: readonly string[];
}

/**
 * Handles `POST /__sandbox/<name>`: 200 `{result}`, 400 `{error}`, 404 for an unknown command, 403 for a request that a
 * web page may have sent, 405 for another method.
 */
export async function handleControl(
  { commands, allowedHosts }: ControlOptions,
  name: string,
  request: IncomingMessage,
  serverResponse: ServerResponse,
): Promise<void> {
  const body = await readBody(request);
  if (body === undefined) return;
  const refusal = refuse(request, allowedHosts);
  if (refusal) return sendResponse(serverResponse, refusal);
  sendResponse(
    serverResponse,
    Buffer.isBuffer(body) ? runCommand(commands, name, body) : jsonResponse(413, { error: 'too large' }),
  );
}

/** The control asks for no key, and any page that a developer visits can send requests to loopback. */
function refuse({ method, headers }: IncomingMessage, allowedHosts: readonly string[]): HttpResponse | undefined {
  // Only browsers send these two; no page of ours uses the control.
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) {
    return jsonResponse(403, { error: 'the control takes no requests from web pages' });
  }
  // An image or a link is a GET, and some browsers give it no origin.
  if (method !== 'POST') return jsonResponse(405, { error: 'the control takes POST' }, { allow: 'POST' });
  if (isOwnHost(headers.host, allowedHosts)) return undefined;
  return jsonResponse(403, { error: 'the control is not known under this host name; name it in allowedHosts' });
}

/** A page can have its own domain point here, but neither an address, `localhost` nor a name without a dot. */
function isOwnHost(host: string | undefined, allowedHosts: readonly string[]): boolean {
  if (!host || !URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  const isAddress = hostname.startsWith('[') || isIP(hostname) !== 0;
  return isAddress || !hostname.includes('.') || allowedHosts.some((allowed) => allowed.toLowerCase() === hostname);
}

function runCommand(commands: ControlCommands, name: string, body: Buffer): HttpResponse {
  if (!Object.hasOwn(commands, name)) {
    return jsonResponse(404, { error: `no command "${name}"; there are ${Object.keys(commands).join(', ')}` });
  }
  const command = commands[name as keyof ControlCommands] as (argument: unknown) => unknown;
  try {
    return jsonResponse(200, { result: command(body.length === 0 ? null : JSON.parse(body.toString('utf8'))) });
  } catch (error) {
    const words = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    return jsonResponse(400, { error: `${name}: ${words}` });
  }
}
