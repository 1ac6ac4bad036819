/**
 * What ships, as a CycloneDX 1.5 document: every package of the lock file that is not for development alone, those that
 * are optional and in the image too. `npm sbom` leaves out what a workspace depends on.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A package, by the terms of https://cyclonedx.org/docs/1.5/json. */
interface Component {
  type: 'library';
  'bom-ref': string;
  name: string;
  version: string;
  purl: string;
  licenses?: { expression: string }[];
  hashes?: { alg: 'SHA-512'; content: string }[];
}

export interface BillOfMaterials {
  bomFormat: 'CycloneDX';
  specVersion: '1.5';
  version: 1;
  metadata: { component: Component };
  components: Component[];
}

/** An entry of a package-lock.json, version 3. */
interface Locked {
  name?: string;
  version: string;
  license?: string;
  integrity?: string;
  dev?: boolean;
  link?: boolean;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

/** The bill of materials of the repository in a folder: the same commit gives the same text. */
export function billOfMaterials(folder: string): BillOfMaterials {
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>;
  };
  const optional = optionalPeers(lock.packages);
  const shipped = Object.entries(lock.packages)
    .filter(([path, { dev, link }]) => (!dev || optional.has(path)) && !link)
    .map(([path, locked]) => componentOf(locked.name ?? path.replace(/^.*node_modules\//, ''), locked));
  // The root comes first. A package may be there twice, below two others.
  const [root, ...others] = [...new Map(shipped.map((component) => [component['bom-ref'], component])).values()];
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: root! },
    components: others,
  };
}

/** Folders of the root's peers and all that they need: the image has them, the lock file calls them development's. */
function optionalPeers(packages: Record<string, Locked>): Set<string> {
  const found = new Set<string>();
  const add = (name: string, from: string): void => {
    const path = placeOf(packages, name, from);
    if (path === undefined || found.has(path)) return;
    found.add(path);
    for (const needed of Object.keys(packages[path]?.dependencies ?? {})) add(needed, path);
  };
  for (const name of Object.keys(packages['']?.peerDependencies ?? {})) add(name, '');
  return found;
}

/** A package finds another in the nearest `node_modules` above. */
function placeOf(packages: Record<string, Locked>, name: string, from: string): string | undefined {
  const path = `${from === '' ? '' : `${from}/`}node_modules/${name}`;
  if (path in packages) return path;
  return from === '' ? undefined : placeOf(packages, name, from.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, ''));
}

function componentOf(name: string, { version, license, integrity }: Locked): Component {
  const id = `${name}@${version}`;
  const hash = integrity?.startsWith('sha512-') ? Buffer.from(integrity.slice(7), 'base64').toString('hex') : null;
  return {
    type: 'library',
    'bom-ref': id,
    name,
    version,
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    ...(license && { licenses: [{ expression: license }] }),
    ...(hash && { hashes: [{ alg: 'SHA-512', content: hash }] }),
  };
}
