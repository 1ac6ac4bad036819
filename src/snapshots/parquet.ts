/**
 * Parquet files of visitor rows. The bytes of pages are put together here, without an object a row; their encodings,
 * headers and footer are hyparquet-writer's.
 */
import { parquetMetadata, type ColumnChunk, type Encoding, type RowGroup, type SchemaElement } from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { writePageHeader } from 'hyparquet-writer/src/datapage.js';
import { deltaBinaryPack } from 'hyparquet-writer/src/delta.js';
import { snappyCompress } from 'hyparquet-writer/src/snappy.js';
import { COUNTS, type Count, type RowBatch } from './row-batch.js';

const SCHEMA: SchemaElement[] = [
  { name: 'root', num_children: 1 + COUNTS.length },
  { name: 'path', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
  ...COUNTS.map((name): SchemaElement => ({ name, type: 'INT64', repetition_type: 'REQUIRED' })),
];
const MAGIC = Buffer.from('PAR1');
const FOOTER_END_BYTES = 8; // the footer's length, and the magic again
const CREATED_BY = 'agent-jobs';
const MAX_INT32 = 2 ** 31 - 1;

/** Writes a Parquet file of one row group; the writer must be empty. */
export function writeParquet(writer: ByteWriter, rows: RowBatch): void {
  const file = new ParquetWriter({ writer, schema: SCHEMA, createdBy: CREATED_BY });
  const start = writer.offset;
  const columns = [writePaths(writer, rows), ...COUNTS.map((name) => writeCounts(writer, name, rows))];
  const bytes = columns.reduce((sum, { meta_data }) => sum + (meta_data?.total_uncompressed_size ?? 0n), 0n);
  const compressed = BigInt(writer.offset - start);
  file.num_rows = BigInt(rows.length);
  file.row_groups.push({
    columns,
    total_byte_size: bytes,
    num_rows: file.num_rows,
    total_compressed_size: compressed,
  });
  void file.finish(); // the in-memory writer is synchronous
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

// Statistics of text would be ordered by UTF-16, which readers that skip by UTF-8 order must not trust: there are none.
function writePaths(writer: ByteWriter, rows: RowBatch): ColumnChunk {
  return writeColumn(writer, 'path', { page: rows.paths, values: rows.length, encoding: 'PLAIN' });
}

function writeCounts(writer: ByteWriter, name: Count, rows: RowBatch): ColumnChunk {
  const counts = rows.counts(name);
  let [least, most] = [Infinity, 0];
  for (const count of counts) {
    if (count < least) least = count;
    if (count > most) most = count;
  }
  const page = new ByteWriter(2 * rows.length);
  deltaBinaryPack(page, most > MAX_INT32 ? BigInt64Array.from(counts, BigInt) : counts, 'INT64');
  const column = { page: page.getBytes(), values: rows.length, encoding: 'DELTA_BINARY_PACKED' } as const;
  const chunk = writeColumn(writer, name, column);
  const statistics = { min_value: BigInt(least), max_value: BigInt(most), null_count: 0n };
  return { ...chunk, meta_data: { ...chunk.meta_data!, statistics } };
}

/** A column chunk of one page. */
function writeColumn(
  writer: ByteWriter,
  name: string,
  { page, values, encoding }: { page: Uint8Array; values: number; encoding: Encoding },
): ColumnChunk {
  const start = writer.offset;
  const compressed = snappyCompress(page);
  writePageHeader(writer, {
    type: 'DATA_PAGE_V2',
    uncompressed_page_size: page.length,
    compressed_page_size: compressed.length,
    data_page_header_v2: {
      num_values: values,
      num_nulls: 0,
      num_rows: values,
      encoding,
      definition_levels_byte_length: 0, // no column is optional or repeated
      repetition_levels_byte_length: 0,
      is_compressed: true,
    },
  });
  const headerBytes = writer.offset - start;
  writer.appendBytes(compressed);
  return {
    file_offset: BigInt(start),
    meta_data: {
      type: name === 'path' ? 'BYTE_ARRAY' : 'INT64',
      encodings: [encoding],
      path_in_schema: [name],
      codec: 'SNAPPY',
      num_values: BigInt(values),
      total_compressed_size: BigInt(headerBytes + compressed.length),
      total_uncompressed_size: BigInt(headerBytes + page.length),
      data_page_offset: BigInt(start),
    },
  };
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
