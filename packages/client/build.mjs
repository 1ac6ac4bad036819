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
import { rolldown } from 'rolldown';

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
  testing: 'client/fake-agent-jobs',
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
    exports: 'named',
    chunkFileNames: 'chunks/[name].js',
  });
  await build.close();
  return output.filter(({ type }) => type === 'chunk');
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

/** The page of the client, without links to pages that the package does not hold. */
async function writeReadme() {
  const page = await readFile(join(ROOT, 'docs/client.md'), 'utf8');
  await writeFile(join(PACKAGE, 'README.md'), page.replace(/\[([^\]]+)\]\((?!#|https?:)[^)]*\)/g, '$1'));
}

/** A doc comment. */
const COMMENT = /^ *\/\*\*[^]*?\*\/$/gm;

/** Copies the declarations that the entries reach, and no others. */
async function copyDeclarations() {
  const entries = Object.values(ENTRIES).map((module) => join(DECLARATIONS, `${module}.d.ts`));
  const handedOn = await reach(entries, /^export .*? from '(\.[^']+)\.js'/gms);
  for (const file of await reach(entries, /(?:from|import\()\s*'(\.[^']+)\.js'/g)) {
    const text = (await readFile(file, 'utf8')).replace(/^\/\/# sourceMappingURL=.*$/m, '');
    const target = join(OUT, 'types', relative(DECLARATIONS, file));
    await mkdir(dirname(target), { recursive: true });
    // No caller reads what no entry hands on.
    await writeFile(target, handedOn.has(file) ? text : text.replace(COMMENT, '').replace(/\n{2,}/g, '\n'));
  }
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
