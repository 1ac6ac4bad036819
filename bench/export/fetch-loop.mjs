// The plain way to export: fetch a page, append its rows as JSON lines. No checks, no restart, no Parquet.
// Arguments: the upstream's URL, its key, the file to write.
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';

const [url, key, file] = process.argv.slice(2);
const PAGE = 250;
const out = createWriteStream(file);
for (let offset = 0, hasMore = true; hasMore; offset += PAGE) {
  const window = `dateFrom=2026-01-01&dateTo=2026-01-02&limit=${PAGE}&offset=${offset}`;
  const response = await fetch(`${url}/v1/analytics/bench/visitors?${window}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  if (!response.ok) throw new Error(`upstream answered ${response.status}`);
  const page = await response.json();
  const lines = page.visitors.map((row) => `${JSON.stringify(row)}\n`).join('');
  if (!out.write(lines)) await once(out, 'drain');
  hasMore = page.hasMore;
}
out.end();
await finished(out);
