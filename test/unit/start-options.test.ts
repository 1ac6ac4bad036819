import { createHash, hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { sha256 as sha256Bytes } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { describe, expect, test } from 'vitest';
import {
  agentJobWorkflowId,
  LIMIT,
  visitorExportScheduleId,
  visitorExportWorkflowId,
  type AgentJobInput,
} from '../../src/contract.js';
import type { InvalidInputError } from '../../src/contract/errors.js';
import { hashNatively, inputHash, promptHash } from '../../src/agent-job/input.js';
import { agentJobStartOptions, type AgentJobPlace } from '../../src/agent-job/start-options.js';

const JOB: AgentJobInput = { projectId: 'p', prompt: 'x' };
const ROOM_FOR_KEY = 255 - agentJobWorkflowId('p', '').length;

function refusal(input: AgentJobInput, place: AgentJobPlace): InvalidInputError {
  try {
    agentJobStartOptions(input, place);
  } catch (error) {
    return error as InvalidInputError;
  }
  throw new Error('was taken');
}

describe('a workflow id that no VARCHAR(255) holds is refused', () => {
  test.each([
    ['letters', (length: number) => 'k'.repeat(length)],
    // Each of them is three bytes, and so nine characters when percent-encoded.
    ['a key of other characters', (length: number) => '€'.repeat(9).concat('k'.repeat(length - 81))],
  ])('counted as it is percent-encoded: %s', (_, key) => {
    for (const length of [ROOM_FOR_KEY - 1, ROOM_FOR_KEY]) {
      const { workflowId } = agentJobStartOptions(JOB, { key: key(length) });
      expect(workflowId).toHaveLength(255 - ROOM_FOR_KEY + length);
    }
    const error = refusal(JOB, { key: key(ROOM_FOR_KEY + 1) });
    expect(error).toMatchObject({ name: 'InvalidInputError', field: 'key' });
    expect(error.message).toMatch(/^key must make a workflow id of 1 to 255 characters.* has 256$/);
  });

  test.each(['a', 'é', '€'])('counted in characters, not in bytes, where the caller chose it: %s', (character) => {
    for (const length of [254, 255]) {
      const workflowId = character.repeat(length);
      expect(agentJobStartOptions(JOB, { workflowId }).workflowId).toBe(workflowId);
    }
    expect(refusal(JOB, { workflowId: character.repeat(256) })).toMatchObject({ field: 'workflowId' });
  });

  test('by the job id where there is no key, and taken under a key', () => {
    const input = { projectId: 'p'.repeat(100), jobId: 'j'.repeat(200) };
    expect(refusal(input, {})).toMatchObject({
      field: 'jobId',
      message: expect.stringMatching(/has 320; give a key in its place$/) as string,
    });
    expect(agentJobStartOptions(input, { key: 'k' }).workflowId).toBe(agentJobWorkflowId(input.projectId, 'k'));
  });

  test('an empty one too', () => {
    expect(refusal(JOB, { workflowId: '' })).toMatchObject({ field: 'workflowId' });
  });
});

test('a hole in an array is refused before anything is sent, since JSON makes it null', () => {
  const tags: string[] = [];
  tags[1] = 'b';
  expect(refusal({ ...JOB, tags }, { key: 'k' })).toMatchObject({ name: 'InvalidInputError', field: 'tags[0]' });
});

describe('Temporal’s own priority', () => {
  const priorityOf = (input: AgentJobInput) => agentJobStartOptions(input, { key: 'k' }).priority;

  test('is the job’s, and the project is the fairness key', () => {
    expect(priorityOf(JOB)).toEqual({ priorityKey: 3, fairnessKey: 'p' });
    expect(priorityOf({ ...JOB, priority: 1 })).toMatchObject({ priorityKey: 1 });
    expect(priorityOf({ ...JOB, priority: null })).toMatchObject({ priorityKey: 3 });
  });

  test('has a fairness key of at most 64 bytes, which no two projects share', () => {
    const keyOf = (projectId: string) => priorityOf({ ...JOB, projectId }).fairnessKey ?? '';
    expect(keyOf('p'.repeat(64))).toBe('p'.repeat(64));
    const keys = ['p'.repeat(65), 'p'.repeat(66), '€'.repeat(22), 'é'.repeat(33)].map(keyOf);
    for (const key of keys) {
      expect(Buffer.byteLength(key)).toBeLessThanOrEqual(64);
      expect(key.isWellFormed()).toBe(true);
    }
    expect(new Set(keys).size).toBe(keys.length);
    expect(keyOf('p'.repeat(65))).toBe(keys[0]);
  });
});

test('every id of an export fits, whatever its project: its Schedule’s, a night’s and a window’s', () => {
  const projectId = '€'.repeat(LIMIT.idBytes / 9);
  const scheduleId = visitorExportScheduleId(projectId.concat('pp'));
  // How the server calls a Schedule's own workflow, and a night's: by its nominal time.
  const schedule = `temporal-sys-scheduler:${scheduleId}`;
  const night = `${scheduleId}-2026-11-12T04:30:00Z`;
  const window = visitorExportWorkflowId(projectId.concat('pp'), '2026-11-12', '2027-11-13');
  expect(scheduleId).toHaveLength(visitorExportScheduleId('').length + LIMIT.idBytes);
  for (const id of [schedule, night, window]) expect(id.length).toBeLessThanOrEqual(LIMIT.workflowIdCharacters);
});

test('the input hash covers project and prompt, or project and job id, with NUL between', () => {
  const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex');
  expect(inputHash({ projectId: 'acme/shop', prompt: 'Füge ✓ hinzu' })).toBe(sha256('acme/shop\0prompt\0Füge ✓ hinzu'));
  expect(inputHash({ projectId: 'acme', jobId: 'job-1' })).toBe(sha256('acme\0jobId\0job-1'));
  const page = readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  expect(page).toContain(inputHash({ projectId: 'acme', prompt: 'Fix the login' }));
});

test('clients hash by the runtime, workflows by code of their own, and both get the same hex', async () => {
  const texts = ['', 'é✓😀', 'half \ud83d a character, \udc00', '\0', 'x'.repeat(600_000)];
  const hashes = () => texts.map((prompt) => [inputHash({ projectId: 'p', prompt }), promptHash(prompt)]);
  const ofWorkflows = (text: string) => bytesToHex(sha256Bytes(new TextEncoder().encode(text)));
  await import('../../src/client/agent-job/run-record.js');
  const ofClients = hashes();
  expect(ofClients.flat()).toEqual(
    texts.flatMap((prompt) => [ofWorkflows(`p\0prompt\0${prompt}`), ofWorkflows(prompt).slice(0, 8)]),
  );
  const asked: string[] = [];
  hashNatively((text) => (asked.push(text), hash('sha256', text, 'hex')));
  expect([hashes(), asked.length]).toEqual([ofClients, 2 * texts.length]);
});
