import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { EXITS } from '../../src/cli/exit.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { plusDays } from '../../src/exports/date-range.js';
import { putDay } from '../report/snapshots.js';
import { CONNECTS, startRefusingServer } from '../support/refusing-temporal.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';

const UNAUTHENTICATED = 16;
const PERMISSION_DENIED = 7;
const COMMANDS = [
  ['state', 'w'],
  ['start', 'do it', '--project', 'p'],
];

test.each([
  [['lis'], "unknown command 'lis'"],
  [['list', '--limit', 'many'], '--limit must be a whole number'],
  [['list', '--phase', 'asleep'], 'Allowed choices are creating'],
  [['list', '--waiting-for', 'luck'], 'Allowed choices are turn, rateLimit, upstream, key, person'],
  [['list', '--colour'], "unknown option '--colour'"],
  [['list', '--since', 'soon'], '--since must be a time'],
  [['start', 'do it'], '--project must be given'],
  [['start', '--from', '/no/such/file'], '--from: ENOENT'],
  [['start', '--from', '/tmp'], '--from: /tmp is a folder'],
  [['start', '--from', '-', 'do it'], '--from takes the key'],
  [['start', '--from', '-', '--wait'], '--from takes the key'],
  [['start', '--from', '-', '--batch', ''], 'batch must be 1 to 100 bytes'],
  [['start', '--project', '..', 'do it'], 'projectId must not be'],
  [['start', '--project', 'p', '--deadline', 'soon', 'do it'], 'deadline must be'],
  [['start', '--project', 'p', '--poll-ratio', 'x', 'do it'], '--poll-ratio must be a number'],
  [['start', '--project', 'p', '--on-unknown-outcome', 'hope', 'do it'], 'Allowed choices are ask, fail, retry'],
  [['start', '--project', 'p', '--key', '', 'do it'], 'key must be'],
  [['start', '--project', 'p', '--job-id', 'j', 'do it'], 'not both'],
  [['start', '--project', 'p', '--prompt-file', '/no/such/file'], '--prompt-file'],
  [['start', '--project', 'p'], 'prompt must be'],
  [['follow-up', 'w', '--id', '', 'do it'], 'id must be'],
  [['resolve', 'w'], 'name the workflow and the action'],
  [['resolve', 'w', 'forget'], 'action must be one of adopt'],
  [['resolve', 'w', 'adopt'], 'jobId must be'],
  [['resolve', 'w', 'retry', '--by', ''], 'by must be 1 to 200 bytes'],
  [['resolve', '--from', '/dev/null', '--note', 'n'.repeat(1_001)], 'note must be 1 to 1000 bytes'],
  [['cancel', 'w', '--by', 'two\nlines'], 'by must be well-formed'],
  [['poll-now', 'w', '--note', '\u0007'], 'note must be well-formed'],
  [['wait'], 'name a job by its workflow id'],
  [['state', '--key', 'k'], '--project and --key name a job together'],
  [['state', '--key', 'k', '--project', 'p', 'w'], 'not both'],
  [['wait', 'w', '--batch', 'b'], 'give a workflow id or --batch, not both'],
  [['wait', '--batch', ''], 'batch must be 1 to 100 bytes'],
  [['follow-up', 'w', '--priority', '9', 'do it'], 'priority must be a whole number from 1 to 5; it is 9'],
  [['start', '--project', 'p', '--priority', 'high', 'do it'], '--priority must be a number'],
  [['start', '--project', 'p', '--batch', 'a\nb', 'do it'], 'batch must be well-formed'],
  [['start', '--project', 'p', '--start-within', 'soon', 'do it'], 'startWithin must be'],
  [['replay-check', '--limit', '-1'], '--limit must be a whole number'],
  [['replay-check', '--since', 'a while'], '--since must be'],
  [['export', 'run', '--project', 'p', '--day', 'x'], '--day must be a date'],
  [['export', 'run', '--project', 'p', '--from', '2026-02-05'], 'give --from and --to, or --day'],
  [['schedule', '--project', 'p', '--hour', '30'], 'hour must be a whole number'],
])('%j is answered with the usage, and exits 2', async (args, message) => {
  const { code, stdout, stderr } = await runInProcess(args);
  expect(stderr).toContain(message);
  expect(stderr).toMatch(/^agent-jobs: .*\nUsage: agent-jobs .*\n\(agent-jobs.* --help lists the options\)\n$/);
  expect(stdout).toBe('');
  expect(code).toBe(2);
});

test('the help of wait goes to stdout, exits 0, and has all exit codes as its page does', async () => {
  const { code, stdout } = await runInProcess(['wait', '--help']);
  expect(code).toBe(0);
  const page = await readFile(new URL('../../docs/commands.md', import.meta.url), 'utf8');
  const told = [...page.matchAll(/^\| (\d+) +\| (.*?) *\|$/gm)].map(([, number, meaning]) => {
    return [Number(number), meaning!.replaceAll('`', '').replace(/, see .*/, '')];
  });
  const shown = [...stdout.matchAll(/^ +(\d+) {2}(.*)$/gm)].map(([, number, meaning]) => [Number(number), meaning]);
  expect(shown).toEqual(told);
  expect(shown.map(([number]) => number)).toEqual(Object.values(EXITS).map(([code]) => code));
});

test('the usage is that of the command that was called, below its group too', async () => {
  const { stderr } = await runInProcess(['export', 'run', '--project', 'p', '--day', 'x']);
  expect(stderr).toContain('Usage: agent-jobs export run [options]\n(agent-jobs export run --help lists the options)');
});

test('help lists the commands in groups', async () => {
  const { stdout, code } = await runInProcess(['--help']);
  const [, ...groups] = stdout.split(/^(?:Jobs|Operators|Exports|Commands):$/m);
  expect(groups.map((group) => /^ {2}[a-z-]+/m.exec(group)?.[0].trim())).toEqual(['start', 'setup', 'export', 'help']);
  expect(code).toBe(0);
});

test('the help of each command has the options of the connection', async () => {
  const { stdout } = await runInProcess(['export', 'run', '--help']);
  expect(stdout).toContain('--address <host:port>');
});

test('gaps counts the days still to come beside the gaps, and takes none that can not have begun', async () => {
  const url = pathToFileURL(newFolder()).href;
  const today = new Date().toISOString().slice(0, 10);
  await putDay(await openStore(url), 'p', { date: plusDays(today, -2), rows: [] });
  const gaps = (...dates: string[]) =>
    runInProcess(['export', 'gaps', '--project', 'p', ...dates], { env: { SNAPSHOTS_URL: url } });
  const due = await gaps();
  expect([due.code, due.stdout]).toEqual([0, expect.stringMatching(/: no gaps, 1 day still to come\n$/)]);
  const future = await gaps('--day', plusDays(today, 2));
  expect([future.code, future.stderr]).toEqual([2, expect.stringContaining('is too late')]);
});

test('a server that is not there is reported in one line, without a stack trace', async () => {
  const { code, stdout, stderr } = await runInProcess(['--address', '127.0.0.1:1', 'list']);
  // If this process stood still for the 4 seconds of an attempt, it does not say that the connection is refused.
  expect(stderr.trim().split('\n')).toEqual([expect.stringContaining('can not reach Temporal at 127.0.0.1:1')]);
  expect(stderr).toContain('"npm start" of agent-jobs starts one');
  expect(stdout).toBe('');
  expect(code).toBe(11);
});

test.each([
  { when: 'the connection', status: UNAUTHENTICATED, accepted: [] },
  { when: 'a call in the namespace', status: UNAUTHENTICATED, accepted: CONNECTS },
  { when: 'a call in the namespace', status: PERMISSION_DENIED, accepted: CONNECTS },
])('where Temporal refuses $when with status $status, a command names the key', async ({ status, accepted }) => {
  const refusing = await startRefusingServer(status, undefined, accepted);
  const env = {
    TEMPORAL_ADDRESS: `127.0.0.1:${refusing.port}`,
    TEMPORAL_API_KEY: 'a-wrong-key',
    TEMPORAL_TLS: 'false',
  };
  try {
    for (const command of COMMANDS) {
      const { code, stdout, stderr } = await runInProcess(command, { env });
      expect(stderr).toMatch(
        /^agent-jobs: [^]*check TEMPORAL_API_KEY or the client certificate, and its rights in .*\n$/,
      );
      expect(stdout).toBe('');
      expect(stderr).not.toContain('a-wrong-key');
      expect(code).toBe(1);
    }
  } finally {
    refusing.close();
  }
});
