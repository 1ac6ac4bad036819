import { readdir, readFile } from 'node:fs/promises';
import packageJson from '../../package.json' with { type: 'json' };

const ROOT = new URL('./histories/', import.meta.url);

/** The folder of what this version recorded, or the one that is about to be released. */
export function historiesFolder(version: string = process.env['RELEASE'] ?? packageJson.version): URL {
  return new URL(`${version}/`, ROOT);
}

/** A recorded history, and the id under which it was lived: an export asks for its own, so a replay must know it. */
export interface RecordedHistory {
  /** Version and scenario. */
  name: string;
  workflowId: string;
  history: History;
}

interface History {
  events: [
    { workflowExecutionStartedEventAttributes: { workflowId?: string; originalExecutionRunId: string } },
    ...Record<string, unknown>[],
  ];
}

/** Every history that any version has recorded. */
export async function recordedHistories(): Promise<RecordedHistory[]> {
  const files = (await readdir(ROOT, { recursive: true })).filter((file) => file.endsWith('.json')).sort();
  return Promise.all(
    files.map(async (file) => {
      const history = JSON.parse(await readFile(new URL(file, ROOT), 'utf8')) as History;
      const { workflowId } = history.events[0].workflowExecutionStartedEventAttributes;
      const name = file.replace(/\.json$/, '');
      return { name, workflowId: workflowId ?? name, history }; // One server's started events have no id.
    }),
  );
}
