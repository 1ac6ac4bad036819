import type {
  ExportActivities,
  ReadChunkInput,
  ReadChunkResult,
} from '../../src/activities/visitor-export/export-activities.js';

type Before = Pick<ExportActivities, 'readChunk' | 'prepareExport' | 'cleanUpExport' | 'publishSnapshot'>;

/** The export activities as the release before had them: it knew no turns, and kept the pace of each export alone. */
export function asReleaseBefore({
  prepareExport,
  readChunk,
  cleanUpExport,
  publishSnapshot,
}: ExportActivities): Before {
  return {
    prepareExport: async ({ range }) => {
      const { expectedRows } = await prepareExport({ range });
      return { expectedRows };
    },
    readChunk: async ({ turns: _turns, turn: _turn, ...input }: ReadChunkInput): Promise<ReadChunkResult> => {
      const { asked: _asked, ...result } = await readChunk(input);
      return result;
    },
    publishSnapshot,
    cleanUpExport: ({ range }) => cleanUpExport({ range }),
  };
}
