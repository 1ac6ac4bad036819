import type { Command } from 'commander';
import { readTarget } from './batch.js';
import { findJob } from './job-name.js';
import { addForecastOptions, showForecast, type ForecastFlags } from './cost-forecast.js';
import { COST_SOURCE } from './cost-text.js';
import { UsageError } from './exit.js';
import { withSession } from './session.js';

const DEFAULT_DAYS = 7;
const MAX_DAYS = 3_650;

interface CostFlags extends ForecastFlags {
  batch?: string;
  project?: string;
  days?: string;
  forecast?: boolean;
  json?: boolean;
}

/** Adds `cost`, which shows what jobs have cost on Temporal, or will cost. */
export function addCost(program: Command): void {
  const command = program
    .command('cost')
    .description(
      'tell what jobs have cost on Temporal so far, or will cost: history, and billable actions (an estimate)',
    )
    .argument('[workflow-id]', 'the job')
    .option('--batch <label>', 'of all jobs of this batch together')
    .option('--project <id>', 'of all that was started of this project, by type of workflow')
    .option('--days <number>', `with --project: started in the last days (default: ${DEFAULT_DAYS})`)
    .option('--json', 'print JSON')
    .addHelpText('after', `\nActions are counted by the rules of ${COST_SOURCE}`);
  addForecastOptions(command).action((given: string | undefined, flags: CostFlags) => cost(command, given, flags));
}

async function cost(command: Command, given: string | undefined, flags: CostFlags): Promise<void> {
  const { json: isJson = false, project, days, forecast = false, ...others } = flags;
  if (forecast) {
    if ([given, flags.batch, project, days].some((value) => value !== undefined)) {
      throw new UsageError('--forecast goes without a workflow id, --batch, --project and --days: it asks no server');
    }
    return showForecast(others, isJson);
  }
  const { showBatchCost, showJobCost, showProjectCost } = await import('./cost-show.js');
  const [stray] = Object.keys(others).filter((name) => name !== 'batch');
  if (stray !== undefined) throw new UsageError(`${flagOf(stray)} goes with --forecast`);
  if (project !== undefined) {
    if ((given ?? flags.batch) !== undefined) {
      throw new UsageError('give a workflow id, --batch or --project, one of the three');
    }
    const { checkId } = await import('../contract/input-checks.js');
    const asked = { projectId: checkId(project, '--project'), days: toDays(days) };
    return withSession(command, (session) => showProjectCost(session, asked, isJson));
  }
  if (days !== undefined) throw new UsageError('--days goes with --project');
  if ((given ?? flags.batch) === undefined) {
    throw new UsageError('name a job by its workflow id, or jobs with --batch or --project; or give --forecast');
  }
  const target = await readTarget(given, { batch: flags.batch });
  await withSession(command, async (session) => {
    if (target.batch !== null) return showBatchCost(session, target.batch, isJson);
    return showJobCost(session, (await findJob(session, target.job)).workflowId, isJson);
  });
}

function toDays(text: string | undefined): number {
  if (text === undefined) return DEFAULT_DAYS;
  const days = Number(text);
  if (/^\d+$/.test(text) && days >= 1 && days <= MAX_DAYS) return days;
  throw new UsageError(`--days must be a whole number of days, 1 to ${MAX_DAYS.toLocaleString('en-US')}`);
}

/** `pollMin` is `--poll-min`. */
function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
