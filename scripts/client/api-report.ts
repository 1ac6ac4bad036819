/**
 * The public surface of the client's package as text, so that a change of it shows in a diff. `npm run docs:api` writes
 * it anew.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type * as Extractor from '@microsoft/api-extractor';
import { createRequire } from 'node:module';

// It is CommonJS whose names Node finds only when it has run.
const extractor = createRequire(import.meta.url)('@microsoft/api-extractor') as typeof Extractor;

const PACKAGE = fileURLToPath(new URL('../../packages/client/', import.meta.url));

/** The path of the report. */
export const API_REPORT = join(PACKAGE, 'api-report.md');

/** The root and the contract together, beside them while the report is made. */
const SURFACE = join(PACKAGE, 'dist/surface.d.ts');

/** Reads the declarations that the build wrote. */
export async function apiReport(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-api-'));
  await writeFile(SURFACE, "export * from './index.js';\nexport * from './contract.js';\n");
  try {
    writeReport(folder);
    return (await readFile(join(folder, 'report.api.md'), 'utf8')).replaceAll('\r\n', '\n');
  } finally {
    await rm(folder, { recursive: true, force: true });
    await rm(SURFACE, { force: true });
  }
}

function writeReport(folder: string): void {
  const silent = { default: { logLevel: extractor.ExtractorLogLevel.None } };
  const compilerOptions = { module: 'nodenext', target: 'es2023', strict: true, types: ['node'] };
  const config = extractor.ExtractorConfig.prepare({
    configObjectFullPath: join(PACKAGE, 'api-extractor.json'),
    packageJsonFullPath: join(PACKAGE, 'package.json'),
    configObject: {
      projectFolder: PACKAGE,
      mainEntryPointFilePath: SURFACE,
      compiler: { overrideTsconfig: { compilerOptions, include: [SURFACE] } },
      apiReport: {
        enabled: true,
        reportFileName: 'report',
        // What is not exported is the type of what is.
        includeForgottenExports: true,
        reportFolder: folder,
        reportTempFolder: join(folder, 'new'),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: { extractorMessageReporting: silent, compilerMessageReporting: silent, tsdocMessageReporting: silent },
    },
  });
  const { succeeded } = extractor.Extractor.invoke(config, {
    localBuild: true,
    messageCallback: (message) => (message.handled = true),
  });
  if (!succeeded) throw new Error('the declarations of the client can’t be read: npm run build');
}

if (import.meta.filename === process.argv[1]) await writeFile(API_REPORT, await apiReport());
