/** The OpenAPI document as this server gives it: that which `npm run docs:contract` writes, with its own address. */
import { readFileSync } from 'node:fs';

const DOCUMENT = new URL('../../docs/contract/openapi.json', import.meta.url);

/** Reads the document, and puts the version and the address of this server in. */
export function openApi(version: string, publicUrl = '/'): object {
  const document = JSON.parse(readFileSync(DOCUMENT, 'utf8')) as { info: object };
  return { ...document, info: { ...document.info, version }, servers: [{ url: publicUrl }] };
}
