/** Decides the columns of the Parquet files of visitor rows, and how they are encoded; writes, joins and reads them. */
import { parquetMetadata, parquetReadObjects, type RowGroup, type SchemaElement } from 'hyparquet';
import { ByteWriter, parquetWrite, ParquetWriter } from 'hyparquet-writer';
import { COUNTS, type VisitorRow } from './content-digest.js';

const SCHEMA: SchemaElement[] = [
  { name: 'root', num_children: 1 + COUNTS.length },
  { name: 'path', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
  ...COUNTS.map((name): SchemaElement => ({ name, type: 'INT64', repetition_type: 'REQUIRED' })),
];
const MAGIC = Buffer.from('PAR1');
const CREATED_BY = 'agent-jobs';

/** A Parquet file of one row group, without indexes of pages: those of joined files would be wrong. */
export function writeParquet(rows: readonly VisitorRow[]): Uint8Array {
  const writer = new ByteWriter();
  // Statistics of text would be ordered by UTF-16, which readers that skip by UTF-8 order must not trust.
  const path = { name: 'path', encoding: 'PLAIN', statistics: false, offsetIndex: false } as const;
  const columnData = [
    { ...path, data: rows.map((row) => row.path) },
    // A dictionary if it halves the bytes, else plain: a ninth more than DELTA_BINARY_PACKED, which some can't read.
    ...COUNTS.map((name) => {
      return { name, data: BigInt64Array.from(rows, (row) => BigInt(row[name])), offsetIndex: false };
    }),
  ];
  void parquetWrite({ writer, schema: SCHEMA, createdBy: CREATED_BY, rowGroupSize: rows.length, columnData });
  return writer.getBytes();
}

/** One Parquet file of the row groups of many, copied as they are; in memory is one of them at a time. */
export async function* joinParquet(files: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const writer = new ByteWriter();
  const joined = new ParquetWriter({ writer, schema: SCHEMA, createdBy: CREATED_BY });
  let offset = MAGIC.length;
  yield MAGIC;
  for await (const file of files) {
    for (const group of parquetMetadata(wholeBuffer(file)).row_groups) {
      const start = Number(group.columns[0]?.meta_data?.data_page_offset);
      const bytes = group.columns.reduce((sum, { meta_data }) => sum + Number(meta_data?.total_compressed_size), 0);
      yield file.subarray(start, start + bytes);
      joined.row_groups.push(moved(group, BigInt(offset - start)));
      joined.num_rows += group.num_rows;
      offset += bytes;
    }
  }
  void joined.finish();
  yield writer.getBytes().subarray(MAGIC.length);
}

function moved(group: RowGroup, by: bigint): RowGroup {
  const columns = group.columns.map((column) => {
    const meta = column.meta_data;
    if (!meta) return column;
    const dictionary = meta.dictionary_page_offset;
    const meta_data = {
      ...meta,
      data_page_offset: meta.data_page_offset + by,
      ...(dictionary !== undefined && { dictionary_page_offset: dictionary + by }),
    };
    return { ...column, file_offset: column.file_offset + by, meta_data };
  });
  return { ...group, columns };
}

/** A path may begin with what marks the encoding of other texts. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const parsers = { stringFromBytes: (bytes: Uint8Array | undefined) => bytes && decoder.decode(bytes) };

/** The rows of a Parquet file, one row group in memory at a time. */
export async function* readRows(bytes: Uint8Array): AsyncGenerator<VisitorRow[]> {
  const file = wholeBuffer(bytes);
  const metadata = parquetMetadata(file);
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows);
    const rows = await parquetReadObjects({ file, metadata, rowStart, rowEnd, parsers });
    yield rows.map(({ path, human, ai, total }) => {
      return { path: path as string, human: Number(human), ai: Number(ai), total: Number(total) };
    });
    rowStart = rowEnd;
  }
}

/** A small Buffer is a part of Node's pool. */
function wholeBuffer(bytes: Uint8Array): ArrayBuffer {
  return (bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)).buffer as ArrayBuffer;
}
