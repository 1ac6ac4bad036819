import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { inputHash } from '../../src/agent-job/input.js';

const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex');

test('the hash of a created job covers project and prompt with NUL between', () => {
  expect(inputHash({ projectId: 'acme/shop', prompt: 'Füge ✓ hinzu' })).toBe(sha256('acme/shop\0prompt\0Füge ✓ hinzu'));
});

test('the hash of an attached job covers project and job id', () => {
  expect(inputHash({ projectId: 'acme', jobId: 'job-1' })).toBe(sha256('acme\0jobId\0job-1'));
});

test('the example of the contract is right', () => {
  const document = readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  expect(document).toContain(inputHash({ projectId: 'acme', prompt: 'Fix the login' }));
});
