import { readFileSync, readdirSync } from 'node:fs';
import { join, posix } from 'node:path';
import { parseSync, Visitor } from 'rolldown/utils';

/** `type` is erased by the compiler; `lazy` is loaded where `import()` is called. */
type ImportKind = 'value' | 'lazy' | 'type';

export interface ModuleImport {
  /** A file of src (`cli/main.ts`), a package (`@temporalio/client`), or `node`. */
  readonly target: string;
  readonly kind: ImportKind;
  /** What is imported by name; nothing for a namespace or a side effect. */
  readonly names: readonly string[];
}

/** Each file of a source folder with all that it imports: statements, re-exports, `import()` and types. */
export type ModuleGraph = ReadonlyMap<string, readonly ModuleImport[]>;

export function readModuleGraph(folder: string): ModuleGraph {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => path.split('\\').join('/'));
  // The files of the page are a browser's, and import nothing.
  const sources = files.filter((file) => /\.m?ts$/.test(file)).toSorted();
  return new Map(sources.map((file) => [file, importsOf(file, readFileSync(join(folder, file), 'utf8'))]));
}

/** The imports of one file, named as it would be in the source folder. */
export function importsOf(file: string, source: string): ModuleImport[] {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const found: ModuleImport[] = [];
  const add = (specifier: string, kind: ImportKind, names: readonly string[] = []): void =>
    void found.push({ target: targetOf(file, specifier), kind, names });
  new Visitor({
    // `import { type A }` still loads the module, so it counts as a value; `import type { A }` does not.
    ImportDeclaration({ source, importKind, specifiers }) {
      const names = specifiers.flatMap((one) => (one.type === 'ImportSpecifier' ? [nameOf(one.imported)] : []));
      add(source.value, importKind === 'type' ? 'type' : 'value', names);
    },
    ExportNamedDeclaration({ source, exportKind, specifiers }) {
      if (source)
        add(
          source.value,
          exportKind === 'type' ? 'type' : 'value',
          specifiers.map(({ local }) => nameOf(local)),
        );
    },
    ExportAllDeclaration({ source, exportKind }) {
      add(source.value, exportKind === 'type' ? 'type' : 'value');
    },
    ImportExpression({ source }) {
      if (source.type === 'Literal') add(String(source.value), 'lazy');
    },
    TSImportType({ source }) {
      add(source.value, 'type');
    },
  }).visit(program);
  return found;
}

function nameOf(name: { name: string } | { value: string }): string {
  return 'name' in name ? name.name : name.value;
}

function targetOf(file: string, specifier: string): string {
  if (specifier.startsWith('node:')) return 'node';
  if (specifier.startsWith('.')) return posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts');
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}
