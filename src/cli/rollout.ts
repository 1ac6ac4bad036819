import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Client } from '@temporalio/client';
import { UsageError } from './exit.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { countOf, table } from './text.js';
import type { DeploymentReport, WorkerVersion } from './worker-versions.js';

/** A worker that has just started is known to the server within seconds. */
const WORKER_WITHIN_MS = 60_000;
const LOOK_MS = 2_000;
/** A run that has just begun may not be listed yet. */
const EMPTY_LOOKS = 3;

const EXITS = `
Without a build id it only shows the versions. A version can be made current once its workers poll; that is waited for
up to a minute. Exit code: 0, with --wait once all workers of old versions can go; 1 no such version, or refused`;

interface RolloutFlags {
  deployment?: string;
  thisRelease?: boolean;
  wait?: boolean;
  json?: boolean;
}

/** Adds `rollout`, which makes a version of the workers current and shows which can go. */
export function addRollout(program: Command): void {
  const command = program
    .command('rollout')
    .description('make a version of the workers current, and show what still runs on which (WORKER_DEPLOYMENT)')
    .argument('[build-id]', 'the version to make current')
    .option('--this-release', 'make the version of the installed release current')
    .option('--deployment <name>', 'the Worker Deployment (default: WORKER_DEPLOYMENT)')
    .option('--wait', 'wait until no open run is left on an old version')
    .option('--json', 'print one line of JSON')
    .addHelpText('after', EXITS)
    .action((buildId: string | undefined, flags: RolloutFlags) => rollOut(command, buildId, flags));
}

async function rollOut(command: Command, given: string | undefined, flags: RolloutFlags): Promise<void> {
  const { json: isJson = false } = flags;
  const deployment = await toDeployment(flags.deployment);
  const buildId = await toBuildId(given, flags);
  await withSession(command, async ({ jobs: { client }, signal }) => {
    const { readDeployment } = await import('./worker-versions.js');
    if (buildId !== null) await makeCurrentSoon(client, deployment, buildId, signal);
    const read = () => readDeployment(client, deployment, signal);
    const report = flags.wait ? await untilDrained(read, signal) : await read();
    if (isJson) printJson(report);
    else print(reportText(report));
  });
}

async function toDeployment(given: string | undefined): Promise<string> {
  const { readDeploymentName } = await import('../config/client.js');
  const deployment = given ?? readDeploymentName();
  if (deployment !== undefined && /^[\w-]+$/.test(deployment)) return deployment;
  throw new UsageError('name the Worker Deployment by --deployment or WORKER_DEPLOYMENT: letters, digits, - and _');
}

async function toBuildId(given: string | undefined, { thisRelease }: RolloutFlags): Promise<string | null> {
  if (!thisRelease) return given ?? null;
  if (given !== undefined) throw new UsageError('give a build id or --this-release, not both');
  const { releaseBuildId } = await import('../temporal/workflow-bundle.js');
  return releaseBuildId();
}

/** The server refuses a version whose workers it has not heard of. */
async function makeCurrentSoon(
  client: Client,
  deployment: string,
  buildId: string,
  signal: AbortSignal,
): Promise<void> {
  const { makeCurrent, NoVersionError } = await import('./worker-versions.js');
  const deadline = Date.now() + WORKER_WITHIN_MS;
  for (let isTold = false; ; isTold = true) {
    try {
      return await makeCurrent(client, deployment, buildId, signal);
    } catch (error) {
      if (!(error instanceof NoVersionError) || Date.now() > deadline) throw error;
      if (!isTold) printToStderr(`agent-jobs: waits for the workers of ${buildId}: ${error.message}`);
    }
    await pause(signal);
  }
}

async function untilDrained(read: () => Promise<DeploymentReport>, signal: AbortSignal): Promise<DeploymentReport> {
  for (let emptyLooks = 0, told = -1; ;) {
    const report = await read();
    const left = report.versions.reduce((sum, { state, openRuns }) => sum + (state === 'old' ? openRuns : 0), 0);
    emptyLooks = left === 0 ? emptyLooks + 1 : 0;
    if (emptyLooks === EMPTY_LOOKS) return report;
    if (left > 0 && left !== told) printToStderr(`agent-jobs: ${countOf(left, 'open run')} on old versions`);
    told = left;
    await pause(signal);
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await delay(LOOK_MS, undefined, { signal }).catch(() => {});
  signal.throwIfAborted();
}

function reportText({ deployment, current, versions }: DeploymentReport): string {
  const rows = versions.map(({ buildId, state, openRuns }) => [buildId, state, String(openRuns)]);
  const lines = versions.map(adviceOn).filter((line) => line !== null);
  if (current === null) lines.push('No version is current: work goes to workers without WORKER_DEPLOYMENT.');
  return [`Deployment ${deployment}`, '', table(['VERSION', 'STATE', 'OPEN RUNS'], rows), '', ...lines].join('\n');
}

function adviceOn({ buildId, state, openRuns, canGo }: WorkerVersion): string | null {
  if (canGo) return `${buildId}: its workers can go, no open run needs them.`;
  if (state === 'old') return `${buildId}: its workers must stay, ${countOf(openRuns, 'open run')} to go on elsewhere.`;
  return null;
}
