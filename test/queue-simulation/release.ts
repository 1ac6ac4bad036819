import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** The folder of a release that is built: one that is named, or that of a tag, built once in the temporary folder. */
export function buildRelease(folderOrTag: string): string {
  if (existsSync(join(folderOrTag, 'dist', 'worker.js'))) return resolve(folderOrTag);
  const folder = join(tmpdir(), `agent-jobs-release-${folderOrTag}`);
  if (existsSync(join(folder, 'dist', 'workflow-bundle.js'))) return folder;
  console.error(`builds ${folderOrTag} in ${folder}`);
  mkdirSync(folder, { recursive: true });
  const sources = execFileSync('git', ['archive', folderOrTag], { maxBuffer: 1 << 30 });
  execFileSync('tar', ['-x', '-C', folder], { input: sources });
  const npm = (...args: string[]) => execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] });
  npm('ci', '--ignore-scripts', '--no-audit', '--no-fund');
  npm('run', 'build', '--silent');
  return folder;
}
