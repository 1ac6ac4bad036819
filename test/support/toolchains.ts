/** Programs that some tests need and a machine may lack: a test without its own is skipped, and says what to do. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { TestContext } from 'vitest';

const run = promisify(execFile);

/** What some tests need, each with the arguments that print its version. */
const TOOLCHAINS = {
  jq: { program: 'jq', args: ['--version'], remedy: 'install jq 1.7 or later' },
  promtool: {
    program: process.env['PROMTOOL'] ?? 'promtool',
    args: ['--version'],
    remedy: 'install Prometheus 3, or name its promtool in PROMTOOL (test/README.md)',
  },
  helm: {
    program: process.env['HELM'] ?? 'helm',
    args: ['version'],
    remedy: 'install Helm 3, or name it in HELM (test/README.md)',
  },
  chromium: {
    program: process.env['CHROMIUM'] ?? 'chromium',
    args: ['--version'],
    remedy: 'install Chromium, or name it in CHROMIUM (test/README.md)',
  },
  go: { program: 'go', args: ['version'], remedy: 'install Go 1.24 or later' },
  maven: { program: 'mvn', args: ['--version'], remedy: 'install Maven 3 with Java 17 or later' },
  openapiGenerator: {
    program: process.env['OPENAPI_GENERATOR'] ?? 'openapi-generator-cli',
    args: ['version'],
    remedy: 'install openapi-generator 7, or name it in OPENAPI_GENERATOR (test/README.md)',
  },
} as const;

const found = new Map<string, Promise<boolean>>();

async function isThere(name: keyof typeof TOOLCHAINS): Promise<boolean> {
  const { program, args } = TOOLCHAINS[name];
  return run(program, args).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error; // It is there, and broken.
    },
  );
}

/**
 * The name of the program. Skips the test if it is missing, with the reason in the report. If REQUIRED_TOOLCHAINS
 * names it (`helm,promtool`, or `all`), a missing one fails the test instead. CI installs Chromium itself.
 */
export async function needToolchain(
  context: Pick<TestContext, 'skip'>,
  name: keyof typeof TOOLCHAINS,
): Promise<string> {
  const { program, remedy } = TOOLCHAINS[name];
  // Many tests of a file ask for one program, and some take a second to say that they are there.
  const key = `${name} in ${process.env['PATH']}`;
  const looked = found.get(key) ?? isThere(name);
  found.set(key, looked);
  if (await looked) return program;
  const text = `NOT TESTED: this needs the program ${program}: ${remedy}`;
  const required = (process.env['REQUIRED_TOOLCHAINS'] ?? '').split(',');
  const isInstalled = name === 'chromium' && Boolean(process.env['CI']);
  if (required.includes(name) || required.includes('all') || isInstalled) throw new Error(text);
  console.warn(text);
  return context.skip(text);
}
