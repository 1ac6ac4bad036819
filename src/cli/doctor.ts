import type { Command } from 'commander';
import type { AgentJobs } from '../starter.js';
import {
  checkExportWorker,
  checkJobWorker,
  checkPayloadKeys,
  checkRetention,
  checkSearchAttributes,
  checkStore,
  checkTemporal,
  checkUpstreamAndKey,
  limited,
  skipped,
  tellFinding,
  type Check,
  type Finding,
} from './doctor-checks.js';
import { EXIT } from './exit.js';
import { connect, withInterrupt, type GlobalOptions } from './session.js';
import { addSnapshotsOption, type SnapshotsFlags } from './export-options.js';

interface DoctorFlags extends SnapshotsFlags {
  project?: string;
  exports?: boolean;
  json?: boolean;
}

const EXITS = `
Each check is ok, warn, fail or skip (not asked for, or another check failed first).
Exit code: 0 where none fails, 11 where Temporal does not answer, else 1`;

/** For what one check asks of Temporal: its error says more than that of the check's limit. */
const TEMPORAL_LIMIT_MS = 6_000;

/** Adds `doctor`, which examines the set-up and changes nothing that stays. */
export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('examine the set-up: Temporal, workers, upstream, key, snapshots')
    .option('--project <id>', 'ask the upstream about this project, so that its key is checked')
    .option('--exports', 'exports are wanted too: that no worker polls for them is a failure')
    .option('--json', 'print one line of JSON for each check');
  command.addHelpText('after', EXITS);
  addSnapshotsOption(command).action((flags: DoctorFlags) =>
    withInterrupt(command, (signal) => examine(command.optsWithGlobals<GlobalOptions>(), flags, signal)),
  );
}

async function examine(globals: GlobalOptions, flags: DoctorFlags, signal: AbortSignal): Promise<void> {
  await loadChecks();
  const connection = connect(globals).then(
    (jobs) => ({ jobs, error: null }),
    (error: Error) => ({ jobs: null, error }),
  );
  const checks = [...temporalChecks(connection, flags, signal), ...settingsChecks(flags, signal)];
  // Ctrl-C ends all of them, and the first one tells.
  for (const { finding } of checks) finding.catch(() => {});
  try {
    for (const { name, finding } of checks) {
      const found = await finding;
      tellFinding(name, found, flags.json ?? false);
      if (found.status === 'fail')
        process.exitCode = found.isOutage ? EXIT.unavailable : (process.exitCode ?? EXIT.error);
    }
  } finally {
    await (await connection).jobs?.close();
  }
  // What a check began and gave up may go on for long, as a disk that does not answer.
  process.stdout.write('', () => process.exit());
}

/** Before the first limit begins: a busy machine loads them slowly, and no server is to blame for that. */
async function loadChecks(): Promise<void> {
  await Promise.all([
    import('../starter.js'),
    import('../config.js'),
    import('../snapshots/open-store.js'),
    import('../temporal/search-attributes.js'),
    import('../worker/upstream-check.js'),
  ]);
}

type Connection = Promise<{ jobs: AgentJobs; error: null } | { jobs: null; error: Error }>;

/** All at once, in the order in which they are told. */
function temporalChecks(connection: Connection, flags: DoctorFlags, signal: AbortSignal): Check[] {
  const ask = (work: (jobs: AgentJobs) => Promise<Finding>) =>
    limited(signal, async (limit) => {
      const { jobs, error } = await connection;
      if (error) throw error;
      const { temporalCall } = await import('../client/temporal-call.js');
      return temporalCall(jobs.client, { signal: limit, timeoutMs: TEMPORAL_LIMIT_MS }, () => work(jobs));
    });
  const temporal = ask(({ client }) => checkTemporal(client));
  const askNext: typeof ask = async (work) => ((await temporal).status === 'ok' ? ask(work) : skipped('not checked'));
  const { exports: isAsked = false } = flags;
  return [
    { name: 'Temporal', finding: temporal },
    { name: 'Search attributes', finding: askNext(({ client }) => checkSearchAttributes(client)) },
    { name: 'Retention', finding: askNext(({ client }) => checkRetention(client)) },
    { name: 'Worker', finding: askNext(({ client, taskQueue }) => checkJobWorker(client, taskQueue)) },
    {
      name: 'Export worker',
      finding: askNext(({ client, taskQueue }) => checkExportWorker(client, taskQueue, isAsked)),
    },
  ];
}

function settingsChecks(flags: DoctorFlags, signal: AbortSignal): Check[] {
  const asked = limited(signal, () => checkUpstreamAndKey(flags.project));
  return [
    { name: 'Upstream', finding: asked },
    { name: 'Key', finding: asked.then((found) => ('key' in found && found.key) || skipped('not checked')) },
    { name: 'Payload keys', finding: limited(signal, checkPayloadKeys) },
    { name: 'Snapshots', finding: limited(signal, () => checkStore(flags)) },
  ];
}
