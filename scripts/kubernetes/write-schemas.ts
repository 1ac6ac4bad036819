/**
 * Writes test/deploy/schemas anew: `npm run kubernetes:schemas`, with Go, which downloads the modules. The
 * schemas are those of Kubernetes' own OpenAPI and of the operators' CRDs, without their descriptions, and refuse
 * fields that are not in them. The names are those that kubeconform looks for.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const KUBERNETES = 'k8s.io/kubernetes@v1.33.4';
/** Name of the file, and of the definition in Kubernetes' OpenAPI. */
const KINDS: Record<string, string> = {
  'serviceaccount-v1': 'io.k8s.api.core.v1.ServiceAccount',
  'service-v1': 'io.k8s.api.core.v1.Service',
  'deployment-apps-v1': 'io.k8s.api.apps.v1.Deployment',
  'job-batch-v1': 'io.k8s.api.batch.v1.Job',
  'poddisruptionbudget-policy-v1': 'io.k8s.api.policy.v1.PodDisruptionBudget',
  'networkpolicy-networking-v1': 'io.k8s.api.networking.v1.NetworkPolicy',
};
const CRDS: Record<string, [module: string, path: string]> = {
  'servicemonitor-monitoring-v1': [
    'github.com/prometheus-operator/prometheus-operator@v0.84.0',
    'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
  ],
  'scaledobject-keda-v1alpha1': ['github.com/kedacore/keda/v2@v2.17.2', 'config/crd/bases/keda.sh_scaledobjects.yaml'],
};
const INT_OR_STRING = { oneOf: [{ type: 'string' }, { type: 'integer' }] };
const PREFIX = '#/definitions/';

type Schema = Record<string, unknown>;

function download(module: string): string {
  const told = execFileSync('go', ['mod', 'download', '-json', module], { encoding: 'utf8' });
  return (JSON.parse(told) as { Dir: string }).Dir;
}

/** What of a schema validates; objects with named fields have no others, unless the schema says that it keeps them. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const all = schema as Schema;
  if (all['format'] === 'int-or-string' || all['x-kubernetes-int-or-string'] === true) return INT_OR_STRING;
  const kept = Object.entries(all).filter(
    ([name, value]) => !name.startsWith('x-') && !(typeof value === 'string' && /^(description|format)$/.test(name)),
  );
  const result: Schema = Object.fromEntries(
    kept.map(([name, value]) => [name, name === 'properties' ? fields(value as Schema) : strict(value)]),
  );
  const isClosed = 'properties' in result && !('additionalProperties' in result);
  if (isClosed && all['x-kubernetes-preserve-unknown-fields'] !== true) result['additionalProperties'] = false;
  return result;
}

/** The names of fields are any, `description` too. */
function fields(properties: Schema): Schema {
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, strict(value)]));
}

/** The definition with those that it refers to, itself or through others. */
function withReferences(name: string, definitions: Record<string, unknown>): Schema {
  const used = new Map<string, unknown>();
  const add = (each: string) => {
    if (used.has(each)) return;
    const schema = strict(definitions[each]);
    used.set(each, schema);
    for (const [, other] of JSON.stringify(schema).matchAll(/"#\/definitions\/([^"]+)"/g)) add(other!);
  };
  add(name);
  return { $ref: PREFIX + name, definitions: Object.fromEntries([...used].toSorted(([a], [b]) => (a < b ? -1 : 1))) };
}

function write(name: string, schema: unknown): void {
  writeFileSync(new URL(`../../test/deploy/schemas/${name}.json`, import.meta.url), `${JSON.stringify(schema)}\n`);
}

const openApi = readFileSync(join(download(KUBERNETES), 'api/openapi-spec/swagger.json'), 'utf8');
const { definitions } = JSON.parse(openApi) as { definitions: Record<string, unknown> };
for (const [name, definition] of Object.entries(KINDS)) write(name, withReferences(definition, definitions));

for (const [name, [module, path]] of Object.entries(CRDS)) {
  const { spec } = parse(readFileSync(join(download(module), path), 'utf8')) as {
    spec: { versions: { name: string; schema: { openAPIV3Schema: unknown } }[] };
  };
  const version = spec.versions.find((each) => name.endsWith(`-${each.name}`))!;
  write(name, strict(version.schema.openAPIV3Schema));
}
