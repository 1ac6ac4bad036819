/** The control of a sandbox, for its callers. What it can do: control-commands.ts. */
import type { ControlCommands } from './control-commands.js';

type Remote = {
  [Name in keyof ControlCommands]: (
    ...argument: Parameters<ControlCommands[Name]>
  ) => Promise<ReturnType<ControlCommands[Name]>>;
};

/** Carries one command to a sandbox; rejects with the sandbox's message where it refuses. */
export type SendCommand = (name: string, argument: unknown) => Promise<unknown>;

class Control {
  constructor(urlOrSend: string | SendCommand) {
    const send = typeof urlOrSend === 'string' ? sendOverHttp(urlOrSend) : urlOrSend;
    return new Proxy(this, {
      get(control, name) {
        // A promise asks what it is given for a `then`.
        const isCommand = typeof name === 'string' && name !== 'then' && !(name in control);
        return isCommand ? (argument?: unknown) => send(name, argument) : (Reflect.get(control, name) as unknown);
      },
    });
  }
}

/** The control of a sandbox, in this process or (by its URL) in another one. Every method is one command. */
export const SandboxControl = Control as unknown as new (urlOrSend: string | SendCommand) => Remote;
export type SandboxControl = Remote;

/** A connection that a fault at `connect` resets has carried no command, so a retry is safe. */
const MAX_ATTEMPTS = 5;

function sendOverHttp(url: string): SendCommand {
  return async (name, argument) => {
    const response = await post(`${url}/__sandbox/${name}`, JSON.stringify(argument ?? null));
    const { result, error } = (await response.json()) as { result: unknown; error?: string };
    if (!response.ok) throw new Error(error ?? `sandbox control ${name}: ${response.status}`);
    return result;
  };
}

async function post(url: string, body: string): Promise<Response> {
  for (let tries = 1; ; tries++) {
    try {
      return await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    } catch (error) {
      if (tries === MAX_ATTEMPTS) throw error;
    }
  }
}
