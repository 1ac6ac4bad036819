/** Parquet files of visitor rows. */
import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadata,
  parquetRead,
  type RowGroup,
  type SchemaElement,
} from 'hyparquet';
import { ByteWriter, parquetWrite, ParquetWriter } from 'hyparquet-writer';
import { COUNTS, type VisitorRow } from './content-digest.js';

const SCHEMA: SchemaElement[] = [
  { name: 'root', num_children: 1 + COUNTS.length },
  { name: 'path', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
  ...COUNTS.map((name): SchemaElement => ({ name, type: 'INT64', repetition_type: 'REQUIRED' })),
];
const MAGIC = Buffer.from('PAR1');
const FOOTER_END_BYTES = 8; // the footer's length, and the magic again
const CREATED_BY = 'agent-jobs';

/** A Parquet file of one row group. Without indexes of pages: joined files would point at the wrong places. */
export function writeParquet(rows: readonly VisitorRow[]): Uint8Array {
  const writer = new ByteWriter();
  // Statistics of text would be ordered by UTF-16, which readers that skip by UTF-8 order must not trust.
  const path = { encoding: 'PLAIN', statistics: false } as const;
  const columnData = [
    { name: 'path', data: rows.map((row) => row.path), offsetIndex: false, ...path },
    ...COUNTS.map((name) => {
      const data = BigInt64Array.from(rows, (row) => BigInt(row[name]));
      return { name, data, offsetIndex: false, encoding: 'DELTA_BINARY_PACKED' as const };
    }),
  ];
  void parquetWrite({ writer, schema: SCHEMA, createdBy: CREATED_BY, rowGroupSize: rows.length, columnData });
  return writer.getBytes();
}

/**
 * One Parquet file of the row groups of many, copied as they are; in memory is one of them at a time, and a piece is
 * good until the next.
 */
export async function* joinParquet(files: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const writer = new ByteWriter();
  const joined = new ParquetWriter({ writer, schema: SCHEMA, createdBy: CREATED_BY });
  let offset = MAGIC.length;
  yield MAGIC;
  for await (const file of files) {
    for (const group of parquetMetadata(footerOf(file)).row_groups) {
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
  return Number(meta.data_page_offset);
}

function moved(group: RowGroup, by: bigint): RowGroup {
  const columns = group.columns.map((column) => {
    const meta = column.meta_data;
    if (!meta) return column;
    const meta_data = { ...meta, data_page_offset: meta.data_page_offset + by };
    return { ...column, file_offset: column.file_offset + by, meta_data };
  });
  return { ...group, columns };
}

/** The end of a Parquet file, which tells all about its row groups. */
function footerOf(file: Uint8Array): ArrayBuffer {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const bytes = view.getUint32(file.byteLength - FOOTER_END_BYTES, true) + FOOTER_END_BYTES;
  return new Uint8Array(file.subarray(file.byteLength - bytes)).buffer;
}

/** Rows of a snapshot by column, as many as one row group of its file holds. */
export interface RowColumns {
  path: string[];
  human: ArrayLike<bigint>;
  ai: ArrayLike<bigint>;
  total: ArrayLike<bigint>;
}

const COLUMNS = ['path', 'human', 'ai', 'total'] as const;
type Column = (typeof COLUMNS)[number];
/** A path may begin with what other texts begin with to tell their encoding. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const parsers = { stringFromBytes: (bytes: Uint8Array | undefined) => bytes && decoder.decode(bytes) };

/** The rows of a Parquet file, one row group in memory at a time. Columns that are not asked for are empty. */
export async function* readRows(
  bytes: Uint8Array,
  columns: readonly Column[] = COLUMNS,
): AsyncGenerator<RowColumns & { length: number }> {
  const file = asyncBuffer(bytes);
  const metadata = parquetMetadata(file.bytes);
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows);
    yield { ...(await readColumns(file, metadata, columns, rowStart, rowEnd)), length: rowEnd - rowStart };
    rowStart = rowEnd;
  }
}

async function readColumns(
  file: AsyncBuffer,
  metadata: FileMetaData,
  columns: readonly Column[],
  rowStart: number,
  rowEnd: number,
): Promise<RowColumns> {
  const found: Record<string, unknown[]> = { path: [], human: [], ai: [], total: [] };
  const onChunk = ({ columnName, columnData }: { columnName: string; columnData: ArrayLike<unknown> }) => {
    const kept = found[columnName];
    // One chunk holds the whole column in most files, ours among them.
    if (kept === undefined || kept.length === 0) found[columnName] = columnData as unknown[];
    else found[columnName] = [...kept, ...Array.from(columnData)];
  };
  await parquetRead({ file, metadata, columns: [...columns], rowStart, rowEnd, onChunk, parsers });
  return found as unknown as RowColumns;
}

function asyncBuffer(bytes: Uint8Array): AsyncBuffer & { bytes: ArrayBuffer } {
  const isWhole = bytes.byteLength === bytes.buffer.byteLength;
  // A small Buffer is a part of Node's pool; its slice would be a view of it.
  const whole = (isWhole ? bytes : new Uint8Array(bytes)).buffer as ArrayBuffer;
  return { bytes: whole, byteLength: whole.byteLength, slice: (start, end) => whole.slice(start, end) };
}
