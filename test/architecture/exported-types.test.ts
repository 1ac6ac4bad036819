/** A type that goes from one file to a single other one beside it is a sign that a thought was cut in two. */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'rolldown/utils';
import { expect, test } from 'vitest';
import { importsOf, type ModuleImport, readModuleGraph } from './module-graph.js';

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));
/** Two files that have more lines together can't be one: measures.test.ts. */
const MAX_FILE_LINES = 400;
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

/**
 * Each exported type that only one file of the same folder imports. Two files may have such a type between them where
 * one loads the other only when it needs it, where one hands the type on, and where both are too long for one file.
 */
function cutThoughts(sources: Sources): string[] {
  const imports = new Map([...sources].map(([file, text]) => [file, importsOf(file, text)]));
  const lines = (file: string): number => sources.get(file)!.split('\n').length - 1;
  const isLazy = (user: string, file: string): boolean =>
    imports.get(user)!.some(({ target, kind }) => target === file && kind === 'lazy');
  const handsOn = (user: string, type: string): boolean =>
    new RegExp(`^export [^;]*\\b${type}\\b[^;]* from `, 'm').test(sources.get(user)!);
  return [...sources].flatMap(([file, text]) =>
    exportedTypes(file, text).flatMap((type) => {
      const user = onlyUser(imports, file, type);
      if (user === undefined || isLazy(user, file) || handsOn(user, type)) return [];
      return lines(file) + lines(user) > MAX_FILE_LINES ? [] : [`${type} of ${file} is for ${user} alone`];
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
