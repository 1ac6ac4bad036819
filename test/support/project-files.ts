/** The files of the project as git knows them, also in an archive of the tree that has no repository. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The repository of the project; without one a new one, whose one commit is the tree as it is. */
export function projectRepository(): string {
  const own = join(ROOT, '.git');
  if (existsSync(own)) return own;
  const made = join(mkdtempSync(join(tmpdir(), 'agent-jobs-tree-')), '.git');
  execFileSync('git', ['init', '--quiet', '--bare', made]);
  git(made, 'add', '--all');
  git(made, '-c', 'user.name=Test', '-c', 'user.email=test@example.com', 'commit', '--quiet', '--message', 'The tree');
  return made;
}

/** Files that git knows or would add: neither builds nor what lies in ignored folders. */
export function projectFiles(): string[] {
  const listed = git(projectRepository(), 'ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate');
  return listed.trim().split('\n');
}

function git(repository: string, ...args: string[]): string {
  const where = repository === join(ROOT, '.git') ? [] : ['--git-dir', repository, '--work-tree', ROOT];
  return execFileSync('git', [...where, ...args], { cwd: ROOT, encoding: 'utf8' });
}
