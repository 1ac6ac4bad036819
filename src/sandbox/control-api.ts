import type { IncomingMessage, ServerResponse } from 'node:http';
import * as z from 'zod';
import { jsonAnswer } from './answer.js';
import type { Answer } from './answer.js';
import type { ControlCommands } from './control-commands.js';
import type { SendCommand } from './control.js';
import { sendAnswer } from './fault-strike.js';
import { readBody } from './request-body.js';

/** Runs commands in this process, with the same checks and the same copies as over HTTP. */
export function sendInProcess(commands: ControlCommands): SendCommand {
  return async (name, argument) => {
    const command = commands[name] as (argument: unknown) => never;
    return structuredClone(command(structuredClone(argument)));
  };
}

/** Answers `POST /__sandbox/<name>`: 200 `{result}`, 400 `{error}`, 404 for a command that does not exist. */
export async function answerControl(
  commands: ControlCommands,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await readBody(request);
  if (body === undefined) return;
  sendAnswer(response, Buffer.isBuffer(body) ? run(commands, name, body) : jsonAnswer(413, { error: 'too large' }));
}

function run(commands: ControlCommands, name: string, body: Buffer): Answer {
  if (!Object.hasOwn(commands, name)) {
    return jsonAnswer(404, { error: `no command "${name}"; there are ${Object.keys(commands).join(', ')}` });
  }
  const command = commands[name as keyof ControlCommands] as (argument: unknown) => unknown;
  try {
    return jsonAnswer(200, { result: command(body.length === 0 ? null : JSON.parse(body.toString('utf8'))) });
  } catch (error) {
    const words = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    return jsonAnswer(400, { error: `${name}: ${words}` });
  }
}
