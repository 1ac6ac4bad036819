/** A type that its own file does not use, for a single other one beside it, is a sign of a thought cut in two. */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'rolldown/utils';
import { expect, test } from 'vitest';
import { importsOf, type ModuleImport, readModuleGraph } from './module-graph.js';

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));
/** The vocabulary on the wire: callers in another language read it type by type. */
const isContract = (file: string): boolean => file.startsWith('contract/');

/** Files by their path, each with its text. */
type Sources = ReadonlyMap<string, string>;

/** The types that a file declares and exports. */
function exportedTypes(file: string, text: string): string[] {
  return parseSync(file, text).program.body.flatMap((node) => {
    if (node.type !== 'ExportNamedDeclaration') return [];
    const { declaration } = node;
    const isType = declaration?.type === 'TSInterfaceDeclaration' || declaration?.type === 'TSTypeAliasDeclaration';
    return isType ? [declaration.id.name] : [];
  });
}

/** The one file beside another that takes a type from it; undefined where others do too, or none does. */
function onlyUser(imports: ReadonlyMap<string, ModuleImport[]>, file: string, type: string): string | undefined {
  const users = [...imports].filter(([, found]) =>
    found.some((one) => one.target === file && one.names.includes(type)),
  );
  const [user] = users.map(([path]) => path);
  return users.length === 1 && posix.dirname(user!) === posix.dirname(file) ? user : undefined;
}

/** Each exported type that only one other file of the same folder imports, and that its own file does not use. */
function cutThoughts(sources: Sources): string[] {
  const imports = new Map([...sources].map(([file, text]) => [file, importsOf(file, text)]));
  const isUsedIn = (text: string, type: string): boolean => text.split(new RegExp(`\\b${type}\\b`)).length > 2;
  return [...sources].flatMap(([file, text]) =>
    exportedTypes(file, text).flatMap((type) => {
      const user = isUsedIn(text, type) ? undefined : onlyUser(imports, file, type);
      return user === undefined ? [] : [`${type} of ${file} is for ${user} alone`];
    }),
  );
}

test('no exported type of src is for one file of the same folder alone', () => {
  const files = [...readModuleGraph(SRC).keys()].filter((file) => file.endsWith('.ts'));
  const held = files.filter((file) => !isContract(file));
  const sources = new Map(files.map((file) => [file, readFileSync(SRC + file, 'utf8')]));
  const found = cutThoughts(sources);
  expect(found.filter((one) => held.some((file) => one.includes(` of ${file} `)))).toEqual([]);
});
