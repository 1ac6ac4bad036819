import { parseArgs } from 'node:util';
import { startSandbox } from './sandbox.js';

const USAGE = `Usage: npm run sandbox -- [options]

  --port N         port, default: any free one
  --host HOST      default 127.0.0.1
  --allowed-host H a name with a dot under which the control is reached; may be repeated
  --key KEY        accepted API key, default: a fixed one
  --data FILE      journal file: jobs outlive the process
  --active-ms N    how long a job stays active, default 4000
  --rows N         visitor rows per window, default 120
  --time-zone TZ   time zone of the visitor days, default UTC
  --rate-limits    100 requests per hour for creates, messages and visitors
  --quiet          no line per request`;

const OPTIONS = {
  port: { type: 'string' },
  host: { type: 'string' },
  'allowed-host': { type: 'string', multiple: true },
  key: { type: 'string' },
  data: { type: 'string' },
  'active-ms': { type: 'string' },
  rows: { type: 'string' },
  'time-zone': { type: 'string' },
  'rate-limits': { type: 'boolean' },
  quiet: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

/** What the upstream's owner documents. */
const DOCUMENTED_LIMITS = { create: 100, message: 100, visitors: 100 };

function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new Error(`--${name} must be a whole number`);
  return Number(text);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) return console.log(USAGE);
  const rows = number('rows', values.rows);
  const activeMs = number('active-ms', values['active-ms']);
  const sandbox = await startSandbox({
    port: number('port', values.port) ?? 0,
    ...(values.host !== undefined && { host: values.host }),
    allowedHosts: values['allowed-host'] ?? [],
    ...(values.key !== undefined && { apiKey: values.key }),
    ...(values.data !== undefined && { dataFile: values.data }),
    script: activeMs === undefined ? {} : { activeMs },
    visitors: { ...(rows !== undefined && { rows }), timeZone: values['time-zone'] ?? 'UTC' },
    rateLimits: values['rate-limits'] ? DOCUMENTED_LIMITS : {},
    ...(!values.quiet && { log: (line: string) => console.log(line) }),
  });
  console.log(`Sandbox upstream  ${sandbox.url}`);
  console.log(`API key           ${values.key === undefined ? sandbox.apiKey : '(as given)'}`);
  const stop = () => void sandbox.close().then(() => process.exit(0));
  process.once('SIGINT', stop).once('SIGTERM', stop);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
