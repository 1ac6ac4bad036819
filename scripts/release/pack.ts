/**
 * Packs what a release hands out, into the folder `release`: both packages, the bill of materials, and the hashes of
 * all. `npm run release:pack` does it for the commit that is checked out; the same commit and Node give the
 * same hashes.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { billOfMaterials } from './bill-of-materials.js';

const FOLDER = 'release';

/** Returns the names of the files. */
export function packRelease(): string[] {
  const bill = billOfMaterials('.');
  // What an earlier build left there would be packed too.
  rmSync('dist', { recursive: true, force: true });
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER);
  const packages = ['--workspaces', '--include-workspace-root'];
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', FOLDER, ...packages], {
    encoding: 'utf8',
  });
  const tarballs = packed.split('\n').filter((line) => line.endsWith('.tgz'));
  const billFile = `agent-jobs-${bill.metadata.component.version}.cdx.json`;
  writeFileSync(join(FOLDER, billFile), `${JSON.stringify(bill, null, 2)}\n`);
  const files = [...tarballs, billFile];
  writeFileSync(join(FOLDER, 'SHA256SUMS'), files.map((file) => `${sha256(file)}  ${file}\n`).join(''));
  return [...files, 'SHA256SUMS'];
}

function sha256(file: string): string {
  return createHash('sha256')
    .update(readFileSync(join(FOLDER, file)))
    .digest('hex');
}

if (import.meta.filename === process.argv[1])
  console.log(
    packRelease()
      .map((file) => join(FOLDER, file))
      .join('\n'),
  );
