import { readdir, readFile } from 'node:fs/promises';
import packageJson from '../../package.json' with { type: 'json' };

const ROOT = new URL('./histories/', import.meta.url);

/** Where this version keeps what it recorded. */
export function historiesFolder(version: string = packageJson.version): URL {
  return new URL(`${version}/`, ROOT);
}

/** Every history that any version has recorded, by version and scenario. */
export async function recordedHistories(): Promise<{ name: string; history: object }[]> {
  const files = (await readdir(ROOT, { recursive: true })).filter((file) => file.endsWith('.json')).sort();
  return Promise.all(
    files.map(async (file) => ({
      name: file.replace(/\.json$/, ''),
      history: JSON.parse(await readFile(new URL(file, ROOT), 'utf8')) as object,
    })),
  );
}
