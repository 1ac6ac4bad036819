/** The options of a job, at the command line and in the page of the contract, are those of the published schema. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { expect, test } from 'vitest';
import { JOB_OPTIONS } from '../../src/agent-job/fields.js';
import { addFlags, readFlags } from '../../src/cli/options.js';
import { published } from '../../src/operations/arguments.js';

const read = (path: string): string => readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8');
const schema = JSON.parse(read('contract/agent-jobs.schema.json')) as {
  $defs: { AttachJobInput: { properties: object } };
};
const FIELDS = Object.keys(schema.$defs.AttachJobInput.properties);
const ABOUT_THE_JOB = ['projectId', 'prompt', 'jobId', 'usedFollowUpIds', 'promptHashes'];
const OPTIONS = FIELDS.filter((name) => !ABOUT_THE_JOB.includes(name));

function typed(...args: string[]): object {
  const fields = published('CreateJobInput', JOB_OPTIONS);
  const command = addFlags(new Command().exitOverride(), fields);
  return readFlags(command.parse(args, { from: 'user' }).opts(), fields);
}

test('each option of a job can be typed, and becomes the field of its name', () => {
  const options = typed(
    ...['--priority', '2', '--batch', 'night', '--tag', 'a', '--tag', 'b', '--meta', 'trace=7=8', '--deadline', '2 h'],
    ...['--start-within', '3 h', '--poll-min', '4 s', '--poll-max', '5000', '--poll-ratio', '0.5'],
    ...['--on-unknown-outcome', 'fail', '--decide-within', '6 h', '--settle', '0'],
  );
  expect(options).toEqual({
    ...{ priority: 2, batch: 'night', tags: ['a', 'b'], metadata: { trace: '7=8' }, deadline: '2 h' },
    ...{ startWithin: '3 h', polling: { min: '4 s', max: '5000', ratio: 0.5 }, onUnknownOutcome: 'fail' },
    ...{ decideWithin: '6 h', settle: '0' },
  });
  expect(Object.keys(options).toSorted()).toEqual(OPTIONS.toSorted());
});

test('what is not typed is left out', () => {
  expect(typed()).toEqual({});
  expect(typed('--poll-max', '5 s')).toEqual({ polling: { max: '5 s' } });
});

test('the page of the contract has a line for each field of the input of a job, and for no other', () => {
  const [, section = ''] = /^## `agentJob`: input\n([\s\S]*?)^## /m.exec(read('contract.md')) ?? [];
  const told = [...section.matchAll(/^- `(\w+)`: /gm)].map(([, name]) => name!);
  expect(told.toSorted()).toEqual(FIELDS.toSorted());
});
