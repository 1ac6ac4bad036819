import { parquetMetadata, type RowGroup, type SchemaElement } from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { RowBatch } from './row-batch.js';

const COUNTS = ['human', 'ai', 'total'] as const;
const SCHEMA: SchemaElement[] = [
  { name: 'root', num_children: 1 + COUNTS.length },
  { name: 'path', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
  ...COUNTS.map((name): SchemaElement => ({ name, type: 'INT64', repetition_type: 'REQUIRED' })),
];
const MAGIC = Buffer.from('PAR1');
const FIRST_BYTES = 512 * 1024; // about what a chunk takes
const CREATED_BY = 'agent-jobs';

/** A Parquet file in memory, one row group a batch. */
export class ParquetEncoder {
  readonly #writer = new ByteWriter(FIRST_BYTES);
  readonly #file = new ParquetWriter({ writer: this.#writer, schema: SCHEMA, createdBy: CREATED_BY });

  add(rows: RowBatch): void {
    const columnData = [
      // Statistics of text would be ordered by UTF-16, which readers that skip by UTF-8 order must not trust.
      { name: 'path', data: rows.paths, offsetIndex: false, statistics: false },
      ...COUNTS.map((name) => ({ name, data: BigInt64Array.from(rows[name], BigInt), offsetIndex: false })),
    ];
    // The in-memory writer is synchronous.
    void this.#file.write({ columnData, rowGroupSize: rows.length });
  }

  finish(): Uint8Array {
    void this.#file.finish();
    return this.#writer.getBytes();
  }
}

/** One Parquet file of the row groups of many, copied as they are; in memory is one of them at a time. */
export async function* joinParquet(files: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const writer = new ByteWriter();
  const joined = new ParquetWriter({ writer, schema: SCHEMA, createdBy: CREATED_BY });
  let offset = MAGIC.length;
  yield MAGIC;
  for await (const file of files) {
    for (const group of parquetMetadata(toArrayBuffer(file)).row_groups) {
      const bytes = group.columns.reduce((sum, { meta_data }) => sum + Number(meta_data?.total_compressed_size), 0);
      const start = groupStart(group);
      yield file.subarray(start, start + bytes);
      joined.row_groups.push(moved(group, BigInt(offset - start)));
      joined.num_rows += group.num_rows;
      offset += bytes;
    }
  }
  void joined.finish();
  yield writer.getBytes().subarray(MAGIC.length);
}

function groupStart(group: RowGroup): number {
  const meta = group.columns[0]?.meta_data;
  if (!meta) throw new Error('A staged row group has no column');
  return Number(meta.dictionary_page_offset ?? meta.data_page_offset);
}

function moved(group: RowGroup, by: bigint): RowGroup {
  const columns = group.columns.map((column) => {
    const meta = column.meta_data;
    if (!meta) return column;
    const dictionary = meta.dictionary_page_offset;
    return {
      ...column,
      meta_data: {
        ...meta,
        data_page_offset: meta.data_page_offset + by,
        ...(dictionary !== undefined && { dictionary_page_offset: dictionary + by }),
      },
    };
  });
  return { ...group, columns };
}

function toArrayBuffer(bytes: Uint8Array): ArrayBuffer {
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}
