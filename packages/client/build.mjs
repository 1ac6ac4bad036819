/**
 * Builds the client's package from the sources of the repository, after `tsc` has written their declarations to `dist`
 * of the root. One implementation, in CommonJS: its ES modules hand on the same classes, so that `instanceof` holds in
 * a process that loads both. Small libraries are bundled, each with its licence; the Temporal packages are the
 * caller's own.
 */
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { decode, encode } from '@jridgewell/sourcemap-codec';
import { rolldown } from 'rolldown';
import { parseAst } from 'rolldown/parseAst';

const PACKAGE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = join(PACKAGE, '../..');
const SOURCES = join(ROOT, 'src');
const DECLARATIONS = join(ROOT, 'dist');
const OUT = join(PACKAGE, 'dist');

/** Each entry of the package, and the module of the sources that it is made of. */
const ENTRIES = {
  index: 'starter',
  contract: 'contract',
  'start-options': 'agent-job/start-options',
  testing: 'client/fake/fake-agent-jobs',
  workflow: 'agent-job/child',
};

/** The caller's own packages, since a second copy would know nothing of the caller's classes; and a dependency. */
const EXTERNAL = /^(node:|@temporalio\/(client|common|workflow)(\/|$)|smol-toml$)/;

/** Writes the CommonJS files and returns the names that each entry exports, and what was bundled. */
async function bundle() {
  const input = Object.fromEntries(
    Object.entries(ENTRIES).map(([entry, module]) => [entry, join(SOURCES, `${module}.ts`)]),
  );
  const build = await rolldown({ input, external: EXTERNAL, platform: 'node', treeshake: true });
  const { output } = await build.write({
    dir: OUT,
    format: 'cjs',
    sourcemap: true,
    exports: 'named',
    // The sources lie in the maps, and their doc comments in the declarations.
    comments: false,
    minify: { compress: true, mangle: { keepNames: true } },
    chunkFileNames: 'chunks/[name].js',
  });
  await build.close();
  for (const { fileName } of output) if (fileName.endsWith('.map')) await trimMap(join(OUT, fileName));
  return output.filter(({ type }) => type === 'chunk');
}

/** A doc comment, or a line that is one. */
const COMMENT = /^ *(?:\/\*\*[^]*?\*\/|\/\/.*)$/gm;
/** What is gone at run time; of an assertion, what follows its expression. */
const ERASED = new Set([
  'ImportDeclaration',
  'TSInterfaceDeclaration',
  'TSTypeAliasDeclaration',
  'TSTypeAnnotation',
  'TSTypeParameterDeclaration',
  'TSTypeParameterInstantiation',
]);
const ASSERTION = /^TS(?:As|Satisfies)Expression$/;

/** A source without its types and imports, line by line. */
function withoutTypes(source) {
  const erased = [];
  const visit = (node) => {
    if (typeof node?.type !== 'string') return;
    const isReexport = node.type.startsWith('Export') && (node.exportKind === 'type' || node.source != null);
    if (ERASED.has(node.type) || isReexport) return erased.push([node.start, node.end]);
    if (!ASSERTION.test(node.type)) return Object.values(node).flat().forEach(visit);
    const closed = /^[\s)]*/.exec(source.slice(node.expression.end))[0].trimEnd();
    erased.push([node.expression.end + closed.length, node.end]);
    visit(node.expression);
  };
  visit(parseAst(source, { lang: 'ts', sourceType: 'module' }));
  return erased
    .toSorted(([a], [b]) => b - a)
    .reduce(
      (text, [start, end]) => text.slice(0, start) + blankLines(text.slice(start, end)) + text.slice(end),
      source,
    );
}

/**
 * Keeps of a map what a stack trace and a debugger need: the lines, and our sources. Doc comments and types
 * lie in the declarations, and the small libraries' sources are public.
 */
async function trimMap(file) {
  const { names: _, ...map } = JSON.parse(await readFile(file, 'utf8'));
  const sourcesContent = map.sources.map((source, i) =>
    source.includes('node_modules') ? null : withoutTypes(map.sourcesContent[i]).replace(COMMENT, blankLines).trimEnd(),
  );
  // What begins in a library is mapped to nothing.
  const ours = (segment) => (sourcesContent[segment[1]] === null ? segment.slice(0, 1) : segment);
  const mappings = encode(decode(map.mappings).map((line) => lineStarts(line.map(ours))));
  await writeFile(file, JSON.stringify({ ...map, names: [], sourcesContent, mappings }));
}

/** As many line breaks as the text has. */
function blankLines(text) {
  return text.replace(/[^\n]+/g, '');
}

/** The segments of one line of JavaScript that begin another line of the sources, whose column nobody needs. */
function lineStarts(segments) {
  return segments
    .filter(([, source, line], i) => i === 0 || segments[i - 1][1] !== source || segments[i - 1][2] !== line)
    .map(([column, ...place]) => (place.length === 0 ? [column] : [column, place[0], place[1], 0]));
}

/** An ES module that hands on what the CommonJS file exports, and its types. */
async function writeModules(chunks) {
  for (const { name, isEntry, exports } of chunks) {
    if (!isEntry) continue;
    const types = `export * from './types/${ENTRIES[name]}.js';\n`;
    await writeFile(join(OUT, `${name}.mjs`), `export { ${exports.join(', ')} } from './${name}.js';\n`);
    await writeFile(join(OUT, `${name}.d.ts`), types);
    await writeFile(join(OUT, `${name}.d.mts`), types);
  }
}

/** Resolutions older than `exports` find an entry by a folder of its name. */
async function writeFolders() {
  for (const entry of Object.keys(ENTRIES)) {
    if (entry === 'index') continue;
    await mkdir(join(PACKAGE, entry), { recursive: true });
    const main = { main: `../dist/${entry}.js`, types: `../dist/${entry}.d.ts` };
    await writeFile(join(PACKAGE, entry, 'package.json'), `${JSON.stringify(main, null, 2)}\n`);
  }
}

/** A declaration of a value, to the next one. */
const VALUE =
  /(?:^\/\*\*(?:(?!\*\/)[^])*\*\/\n)?^export declare (?:const|function) (\w+)[^]*?;$(?=\n(?:[^\s}]|\s*$))/gm;

/** A type that its file keeps to itself, with its comment. */
const LOCAL_TYPE = /(?:^\/\*\*(?:(?!\*\/)[^])*\*\/\n)?^(?:interface (\w+) \{$[^]*?^\}|type (\w+) = [^{]*?;$)/gm;
/** Types that a file takes from another module, by name. */
const NAMED_IMPORT = /^import (?:type )?\{([^}]*)\} from [^;]*;\n/gm;
const IMPORT = /(?:from|import\()\s*'(\.[^']+)\.js'/g;

/** The page of the client, without links to pages that the package does not hold. */
async function writeReadme() {
  const page = await readFile(join(ROOT, 'docs/client.md'), 'utf8');
  await writeFile(join(PACKAGE, 'README.md'), page.replace(/\[([^\]]+)\]\((?!#|https?:)[^)]*\)/g, '$1'));
}

/** Copies the declarations that the entries reach, and no others. */
async function copyDeclarations() {
  const entries = Object.values(ENTRIES).map((module) => join(DECLARATIONS, `${module}.d.ts`));
  const handedOn = await reach(entries, /^export .*? from '(\.[^']+)\.js'/gms);
  const reached = await reach(entries, IMPORT);
  const isWhole = await reach(entries, /^export \* from '(\.[^']+)\.js'/gm);
  /** The words of each file, and of those that import from it. */
  const words = new Map([...reached].map((file) => [file, []]));
  for (const file of reached) {
    const text = (await readFile(file, 'utf8')).replace(COMMENT, '');
    const imported = [...text.matchAll(IMPORT)].map(([, path]) => join(dirname(file), `${path}.d.ts`));
    for (const told of new Set([file, ...imported])) words.get(told).push(...text.match(/\w+/g));
  }
  for (const file of reached) {
    // A value that no declaration names again, and that no entry hands on, is nobody's.
    const unnamed = (statement, name) =>
      words.get(file).filter((word) => word === name).length === 1 ? '' : statement;
    const given = (await readFile(file, 'utf8')).replace(/^\/\/# sourceMappingURL=.*$/m, '');
    const told = handedOn.has(file) ? given : given.replace(COMMENT, '');
    const text = isWhole.has(file) ? told : withoutUnused(told.replace(VALUE, unnamed)).replace(/\n{3,}/g, '\n\n');
    const target = join(OUT, 'types', relative(DECLARATIONS, file));
    await mkdir(dirname(target), { recursive: true });
    // Nobody reads what no entry hands on.
    await writeFile(target, handedOn.has(file) ? text : text.replace(COMMENT, '').replace(/\n{2,}/g, '\n'));
  }
}

/** Without the types, and then the imports, that served what is gone. */
function withoutUnused(text) {
  const isUsed = (name, all) =>
    all
      .replace(COMMENT, '')
      .match(/\w+/g)
      .filter((word) => word === name).length > 1;
  return text
    .replace(LOCAL_TYPE, (statement, of, alias) => (isUsed(of ?? alias, text) ? statement : ''))
    .replace(NAMED_IMPORT, (statement, names, _, all) =>
      names.match(/\w+(?=\s*(?:,|$))/g).some((name) => isUsed(name, all)) ? statement : '',
    );
}

/** The files that declarations lead to by what a pattern finds. */
async function reach(entries, pattern) {
  const reached = new Set(entries);
  for (const file of reached) {
    for (const [, path] of (await readFile(file, 'utf8')).matchAll(pattern)) {
      reached.add(join(dirname(file), `${path}.d.ts`));
    }
  }
  return reached;
}

/** The licences of what was bundled. */
async function writeNotices(chunks) {
  const require = createRequire(import.meta.url);
  const modules = chunks.flatMap(({ moduleIds }) => moduleIds);
  const names = new Set(modules.flatMap((id) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? []));
  const texts = [...names]
    .toSorted((a, b) => a.localeCompare(b))
    .map(async (name) => {
      const folder = join(ROOT, 'node_modules', name);
      const { version, license } = require(join(folder, 'package.json'));
      return `${name} ${version} (${license})\n\n${await licenceOf(folder)}`;
    });
  const notices = (await Promise.all(texts)).join(`\n${'-'.repeat(80)}\n\n`);
  await writeFile(join(OUT, 'THIRD-PARTY-LICENSES.txt'), notices);
}

async function licenceOf(folder) {
  for (const name of ['LICENSE', 'LICENSE.md', 'license.md', 'LICENSE.txt']) {
    const text = await readFile(join(folder, name), 'utf8').catch(() => undefined);
    if (text !== undefined) return text;
  }
  throw new Error(`${folder} has no licence file`);
}

await rm(OUT, { recursive: true, force: true });
const chunks = await bundle();
await writeModules(chunks);
await writeFolders();
await copyDeclarations();
await writeNotices(chunks);
await cp(join(ROOT, 'LICENSE'), join(PACKAGE, 'LICENSE'));
await writeReadme();
