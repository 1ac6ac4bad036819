import { afterEach, expect, test, vi } from 'vitest';
import { needToolchain } from './toolchains.js';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** A machine without any program, and the context of a test on it that tells why it was skipped. */
function bareMachine(required: string) {
  vi.stubEnv('PATH', '/nowhere');
  vi.stubEnv('REQUIRED_TOOLCHAINS', required);
  const warn = vi.spyOn(console, 'warn').mockReturnValue();
  const context = {
    skip: (note?: boolean | string): never => {
      throw new Error(`skipped: ${note}`);
    },
  };
  return { warn, context };
}

const MISSING = /NOT TESTED: this needs the program jq: install jq/;

test('a test whose toolchain is missing is skipped, and both report and output say what to install', async () => {
  const { warn, context } = bareMachine('');
  await expect(needToolchain(context, 'jq')).rejects.toThrow(/^skipped: NOT TESTED/);
  expect(warn).toHaveBeenCalledWith(expect.stringMatching(MISSING));
});

test.each(['jq', 'helm,jq', 'all'])('it fails where REQUIRED_TOOLCHAINS is %s', async (required) => {
  await expect(needToolchain(bareMachine(required).context, 'jq')).rejects.toThrow(/^NOT TESTED/);
});
