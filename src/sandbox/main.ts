/** `npm run sandbox`: the sandbox upstream in a process of its own. */
import { parseArgs } from 'node:util';
import { LAG_OPTIONS, lagsOf } from './jobs.js';
import { startSandbox } from './sandbox.js';

const USAGE = `Usage: npm run sandbox -- [options]

  --port N         port, default: any free one
  --host HOST      default 127.0.0.1
  --key KEY        accepted API key, default: a fixed one
  --data FILE      journal file: jobs outlive the process
  --active-ms N    how long a job stays active, default 4000
  --late-pr TIME   how long after "completed" the pull request shows, for example 15s
  --stale-end TIME how long after a message the old status shows, for example 10s
  --rows N         visitor rows per date range, default 120
  --rate-limits    100 requests per hour for creates, messages and visitors
  --quiet          no line per request`;

const PROGRAM_OPTIONS = {
  port: { type: 'string' },
  host: { type: 'string' },
  key: { type: 'string' },
  data: { type: 'string' },
  'active-ms': { type: 'string' },
  ...LAG_OPTIONS,
  rows: { type: 'string' },
  'rate-limits': { type: 'boolean' },
  quiet: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

/** What the upstream's owner documents. */
const DOCUMENTED_LIMITS = { create: 100, message: 100, visitors: 100 };

async function main(): Promise<void> {
  const { values } = parseArgs({ options: PROGRAM_OPTIONS });
  if (values.help) return console.log(USAGE);
  const number = (name: 'port' | 'active-ms' | 'rows', preset: number) => {
    if (!/^\d*$/.test(values[name] ?? '')) throw new Error(`--${name} must be a whole number`);
    return Number(values[name] ?? preset);
  };
  const sandbox = await startSandbox({
    port: number('port', 0),
    ...(values.host !== undefined && { host: values.host }),
    ...(values.key !== undefined && { apiKey: values.key }),
    ...(values.data !== undefined && { dataFile: values.data }),
    script: { activeMs: number('active-ms', 4_000), ...lagsOf(values) },
    visitors: { rows: number('rows', 120) },
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
