import { afterEach, expect, test, vi } from 'vitest';
import { barOf, ProgressLine } from '../../src/cli/terminal.js';

const isTTY = process.stderr.isTTY;
afterEach(() => {
  process.stderr.isTTY = isTTY;
  vi.restoreAllMocks();
});

function written(isTerminal: boolean, act: (progress: ProgressLine) => void): string[] {
  process.stderr.isTTY = isTerminal;
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  act(new ProgressLine({ everyMs: 60_000 }));
  return write.mock.calls.map(([text]) => String(text));
}

test('a terminal shows one line in place, which goes before other output', () => {
  const lines = written(true, (progress) => {
    progress.show('1 line');
    progress.clear();
    progress.clear();
  });
  expect(lines).toEqual(['\r\u001B[K1 line', '\r\u001B[K']);
});

test('elsewhere each is a line of its own, and no more than one in the given time', () => {
  const lines = written(false, (progress) => {
    progress.show('1 line');
    progress.show('2 lines');
    progress.clear();
  });
  expect(lines).toEqual(['1 line\n']);
});

test('a bar has the same length at every share', () => {
  expect([0, 0.5, 1].map(barOf)).toEqual([
    `[${'.'.repeat(24)}]   0 %`,
    `[${'#'.repeat(12)}${'.'.repeat(12)}]  50 %`,
    `[${'#'.repeat(24)}] 100 %`,
  ]);
});
