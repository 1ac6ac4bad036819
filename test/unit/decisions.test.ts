import { expect, test } from 'vitest';
import { parseAttribution } from '../../src/agent-job/input.js';
import type { Decision, InDoubtWrite } from '../../src/contract.js';
import { jsonBytes } from '../../src/contract/shared.js';
import { withDecision } from '../../src/workflows/agent-job/job-run.js';

const SINCE = '2026-01-01T00:00:00.000Z';
const create: InDoubtWrite = { kind: 'create', reason: 'reset', since: SINCE, lookAfter: SINCE };
const followUp: InDoubtWrite = { ...create, kind: 'followUp', followUpId: 'a' };

test('a decision tells what was decided about which write, by whom, why and when', () => {
  const adopt = { action: 'adopt', jobId: 'job-1', by: 'ann@host', note: 'seen' } as const;
  const first = withDecision([], adopt, create, Date.parse(SINCE));
  expect(withDecision(first, { action: 'retry', by: null, note: null }, followUp, Date.parse(SINCE))).toEqual([
    { action: 'adopt', kind: 'create', jobId: 'job-1', by: 'ann@host', note: 'seen', at: SINCE },
    { action: 'retry', kind: 'followUp', followUpId: 'a', at: SINCE },
  ]);
});

test('the last 100 decisions are kept, with the longest plain texts that are accepted', () => {
  let kept: Decision[] = [];
  const longest = { by: 'b'.repeat(200), note: 'n'.repeat(1_000) };
  const write = { ...followUp, followUpId: 'f'.repeat(256) };
  for (let at = 0; at < 150; at++) kept = withDecision(kept, { action: 'retry', ...longest }, write, at);
  expect(kept).toHaveLength(100);
  expect(kept.at(0)?.at).toBe(new Date(50).toISOString());
  expect(kept.at(-1)).toMatchObject({ ...longest, at: new Date(149).toISOString() });
});

test('texts that JSON makes longer push out older decisions, and never the last', () => {
  let kept: Decision[] = [];
  const write = { ...followUp, followUpId: '\u0001'.repeat(256) };
  for (let at = 0; at < 150; at++) kept = withDecision(kept, { action: 'retry', note: '"'.repeat(1_000) }, write, at);
  expect(jsonBytes(kept)).toBeLessThanOrEqual(200_000);
  expect(kept.length).toBeGreaterThan(50);
  expect(kept.at(-1)?.at).toBe(new Date(149).toISOString());
});

test('a note may have several lines, and both may be left out', () => {
  const attribution = { by: 'é'.repeat(100), note: 'one\r\n\ttwo 😀' };
  expect(parseAttribution({ ...attribution, other: 1 })).toEqual(attribution);
  expect(parseAttribution({ by: null })).toEqual({});
});
