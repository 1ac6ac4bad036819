import { expect, test } from 'vitest';
import type { TerminalStatus } from '../../src/contract.js';
import { linksIn, shownJob } from '../../src/upstream/shown-job.js';
import { record } from '../support/scripted-upstream.js';

const A = 'https://github.example/a/b/pull/1';
const B = 'http://git.example/2';
const FURTHER: ReadonlyMap<string, TerminalStatus> = new Map([
  ['cancelled', 'failed'],
  ['done', 'completed'],
  ['failed', 'completed'],
]);

test.for<[status: string, end: TerminalStatus | null, isUnknown?: true]>([
  ['completed', 'completed'],
  ['Completed', 'completed'],
  [' FAILED\n', 'failed'],
  ['archived ', 'archived'],
  ['active', null],
  ['\tActive', null],
  ['Cancelled', 'failed'],
  ['done', 'completed'],
  ['idle', null, true],
  ['complete', null, true],
  ['completed!', null, true],
  [' ', null, true],
  ['__proto__', null, true],
])('the status %j names the end %j, unknown: %s', ([status, end, isUnknownStatus]) => {
  const job = record({ status });
  expect(shownJob(job, [], FURTHER)).toEqual({ job, end, ...(isUnknownStatus && { isUnknownStatus }) });
});

test('a word is an end only if the settings say so', () => {
  expect(shownJob(record({ status: 'cancelled' }), [], new Map())).toMatchObject({ end: null, isUnknownStatus: true });
});

test('links are handed on beside the record if it has more than one', () => {
  expect(shownJob(record(), [A], FURTHER)).not.toHaveProperty('prLinks');
  expect(shownJob(record(), [A, B], FURTHER)).toMatchObject({ prLinks: [A, B] });
});

const nested = (depth: number): unknown => (depth === 0 ? A : [nested(depth - 1)]);

test.for<[what: string, prLink: unknown, links: string[]]>([
  ['a text', A, [A]],
  ['a text that is no address', 'acme/site#1', ['acme/site#1']],
  ['an empty text', '', []],
  ['a blank text', ' \n', []],
  ['null', null, []],
  ['nothing', undefined, []],
  ['a number', 7, []],
  ['a list', [A, B], [A, B]],
  ['a list that repeats one', [A, B, A], [A, B]],
  ['an empty list', [], []],
  ['an object', { url: A }, [A]],
  ['a list of objects, with other texts', [{ number: 1, title: 'Fix it', url: A }, { url: B }], [A, B]],
  ['texts that only look like one', ['ftp://x', 'javascript:alert(1)', `see ${A}`, 'https://', ''], []],
  ['an address in capitals', ['HTTPS://GIT.EXAMPLE/1'], ['HTTPS://GIT.EXAMPLE/1']],
  ['four levels', nested(4), [A]],
  ['more levels', nested(5), []],
  ['thousands of levels', nested(5_000), []],
  ['names of an object’s own parts', JSON.parse(`{"__proto__": "${A}", "constructor": {"prototype": "${B}"}}`), [A, B]],
])('the links in %s', ([, prLink, links]) => {
  expect(linksIn(prLink)).toEqual(links);
});
