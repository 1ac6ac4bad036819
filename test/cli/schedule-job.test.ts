import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startJobServer, type JobServer } from '../client/job-server.js';
import { expectFates, runHours } from '../client/recurring.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MINUTE = 60_000;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
});
afterAll(async () => server.close());

function cli(args: string[], options: { stdin?: string } = {}): Promise<CliRun> {
  return runInProcess(['schedule', ...args], { ...options, env: envOf(server) });
}

test(
  'schedule job makes, changes, shows, pauses, resumes and removes; without a subcommand it sets',
  async () => {
    const name = `nightly ${randomUUID()}`;
    const own = ['--project', server.projectId, '--name', name];
    const prompt = 'Review what was merged before {date}\nand nothing else';
    const made = await cli(['job', ...own, '--cron', '30 4 * * 1-5', '--time-zone', 'Europe/Paris', '--paused', '-'], {
      stdin: prompt,
    });
    expect(made.stderr).toBe('');
    expect(made.stdout).toMatch(/^created recurring-job\/project-\S+\nWhen +30 4 \* \* 1-5 Europe\/Paris\n/);
    expect(made.stdout).toMatch(/Prompt +Review what was merged before \{date\}\nOverlap +skip\n/);
    const changed = await cli(['job', 'set', ...own, '--overlap', 'queue', '--deadline', '1 hour', '--json']);
    expect(jsonLines(changed.stdout)).toMatchObject([
      { name, prompt, cron: '30 4 * * 1-5', overlap: 'queue', paused: true, options: { deadline: '1 hour' } },
    ]);
    const resumed = await cli(['job', 'unpause', ...own]);
    expect(resumed).toMatchObject({ code: 0, stderr: '' });
    expect((await cli(['job', 'show', ...own])).stdout).toMatch(/Next +20[\s\S]+no runs yet/);
    await cli(['job', 'pause', ...own, '--note', 'until Monday']);
    expect((await cli(['list'])).stdout).toMatch(/Jobs\nPROJECT[\s\S]+nightly [\s\S]+paused[\s\S]+until Monday/);
    const removed = await cli(['job', 'remove', ...own]);
    expect(removed.stdout).toMatch(/^removed recurring-job\//);
    const again = await cli(['job', 'remove', ...own]);
    expect(again.stderr).toContain('there is no Schedule recurring-job/');
    expect(again.code).toBe(1);
  },
  3 * MINUTE,
);

test(
  'each run is shown with its fate and its job, and how many times were skipped',
  async () => {
    const name = randomUUID();
    const { projectId } = server;
    await server.sandbox.addScript({ promptIncludes: name, script: { activeMs: 3_600_000 } });
    const handle = await server.jobs.schedule({
      projectId,
      name,
      prompt: `${name} {time}`,
      every: '1 hour',
      paused: true,
    });
    await runHours(server, handle, 1);
    await expectFates(handle, ['running']);
    await runHours(server, handle, 2);
    await expect.poll(async () => (await handle.describe()).skippedRuns).toBe(1);
    const own = ['--project', projectId, '--name', name];
    const shown = await cli(['job', 'show', ...own]);
    expect(shown.stdout).toMatch(/Skipped +1 times, while an earlier run was not over\n/);
    expect(shown.stdout).toMatch(/2026-03-10 01:00:00 UTC +running +agent-job\//);
    const [described] = jsonLines((await cli(['job', 'show', ...own, '--limit', '1', '--json'])).stdout);
    expect(described).toMatchObject({ everyMs: 3_600_000, skippedRuns: 1, runs: [{ fate: 'running' }] });
    const listed = jsonLines((await cli(['list', '--json'])).stdout).filter((line) => line['name'] === name);
    expect(listed).toMatchObject([{ kind: 'job', projectId, lastRun: { fate: 'running' }, skippedRuns: 1 }]);
    const triggered = await cli(['job', 'trigger', ...own]);
    expect(triggered.stdout).toMatch(/^triggered recurring-job\//);
    await expect.poll(async () => (await handle.describe()).skippedRuns).toBe(2);
    await handle.remove();
    await server.jobs.handle({ projectId, key: `${name}-2026-03-10T01:00:00Z` }).cancel();
  },
  3 * MINUTE,
);

test.each([
  [['--cron', '61 4 * * *', 'Review'], 'cron is refused by Temporal: Minute is not in range [0-59]'],
  [['--cron', '0 4 * * *', 'Review {day}'], 'prompt has an unknown placeholder at character 8'],
  [['--every', '10 seconds', 'Review'], 'every must be at least 1 minute'],
  [['Review'], 'cron or every must be given: project p has no recurring job n yet'],
  [['--overlap', 'both', 'Review'], "argument 'both' is invalid. Allowed choices are skip, queue."],
])('a wrong setting is told with its name and the usage: %j', async (args, message) => {
  const run = await cli(['job', '--project', 'p', '--name', 'n', ...args]);
  expect(run.stderr).toContain(message);
  expect(run.stderr).toContain('Usage: agent-jobs schedule job set');
  expect(run.code).toBe(2);
});
