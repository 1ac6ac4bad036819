/** Which server a command talks to where nothing names one: the system that `npm start` runs on this machine. */
import type { ConnectSettings } from '../starter.js';
import { UsageError } from './exit.js';
import type { GlobalOptions } from './session.js';

let isTold = false;

/** The settings that lead to the local system, where it is meant; it is told where nothing but its running means it. */
export async function localSettings(
  { address, namespace }: GlobalOptions,
  tell: (line: string) => void,
): Promise<ConnectSettings> {
  const { namesTemporal, processEnvironment: env, readClientConfig } = await import('../config/client.js');
  const { runningSystems } = await import('../local/data-folder.js');
  const running = await runningSystems(env);
  if (running.length === 0) return {};
  const isNamed = (address ?? namespace) !== undefined || namesTemporal(env);
  if (!isNamed && running.length > 1) {
    const places = running.map((one) => `  --address ${one.address}   ${one.folder}`);
    throw new UsageError([`several systems of "npm start" run: name the one that is meant`, ...places].join('\n'));
  }
  const named = readClientConfig(env, address).temporal.address;
  const local = isNamed ? running.find((one) => one.address === named) : running[0];
  if (local === undefined) return {};
  if (!isNamed && !isTold) tell(`agent-jobs: the server is that of npm start, ${local.address}, ${local.folder}`);
  isTold = true;
  return {
    address: local.address,
    taskQueue: env['AGENT_JOBS_TASK_QUEUE'] ? undefined : local.taskQueue,
    webUiUrl: env['AGENT_JOBS_WEB_UI_URL'] ? undefined : local.webUiUrl,
  };
}
