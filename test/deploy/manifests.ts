/** What the chart makes of values, as the tests read it. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import { parseAllDocuments } from 'yaml';

const run = promisify(execFile);

interface Container {
  name: string;
  image: string;
  args?: string[];
  env: { name: string; value?: string; valueFrom?: unknown }[];
  ports?: { name: string; containerPort: number }[];
  securityContext: Record<string, unknown>;
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean; subPath?: string }[];
  resources: { requests: Record<string, string>; limits: { memory: string } };
  startupProbe?: Probe;
  livenessProbe?: Probe;
  readinessProbe?: Probe;
}

interface Probe {
  httpGet: { path: string; port: string };
}

interface Volume {
  name: string;
  secret?: { secretName: string; defaultMode: number };
}

export interface PodSpec {
  securityContext: Record<string, unknown>;
  automountServiceAccountToken: boolean;
  nodeSelector?: Record<string, string>;
  tolerations?: { key: string }[];
  affinity?: Record<string, unknown>;
  terminationGracePeriodSeconds?: number;
  containers: Container[];
  volumes: Volume[];
}

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels: Record<string, string>; annotations?: Record<string, string> };
  spec?: Record<string, unknown> & { template?: { metadata: Omit<Manifest['metadata'], 'name'>; spec: PodSpec } };
}

export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).flatMap((each) => (each.toJS() as Manifest | null) ?? []);
}

export const CHART = fileURLToPath(new URL('../../deploy/kubernetes/chart/', import.meta.url));

/** The release, and the same in names of objects. */
export const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
export const dashed = version.replaceAll('.', '-');

export const setText = (...values: string[]): string[] => values.flatMap((value) => ['--set-string', value]);

/** The values that have no default. */
export const NEEDED = setText(
  ...['temporal.address=temporal:7233', 'upstream.baseUrl=https://u.example', 'snapshots.url=s3://b/p'],
);

const turnedOn = (...values: string[]) => values.flatMap((value) => ['--set', `${value}=true`]);
/** Every part that values turn on. */
export const EVERYTHING = [
  ...NEEDED,
  ...setText(
    'temporal.tls.secret=tls',
    'temporal.apiKey.secret=key',
    'payloadKeys.secret=keys',
    'snapshots.claim=claim',
  ),
  ...setText('webhooks.secret=webhooks', 'upstream.keys.projectKeys=projects'),
  ...setText('settings.LOG_LEVEL=debug', 'temporal.tls.serverName=temporal', 'http.maxToolWait=20s'),
  ...setText('http.publicUrl=https://example.com/jobs', 'http.allowedOrigins=https://app.example.com'),
  ...['--set', 'http.replicas=2', '--set-json', 'networkPolicy.httpFrom=[{"podSelector":{}}]'],
  ...turnedOn('temporal.tls.serverAuthority', 'serviceMonitor.enabled', 'autoscaling.enabled', 'versioning.enabled'),
];

/** The text that Helm makes of the chart with these arguments; rejects with what Helm says. */
export async function renderChart(helm: string, args: readonly string[]): Promise<string> {
  const { stdout } = await run(helm, ['template', 'agent-jobs', CHART, ...args], { maxBuffer: 16 * 1024 ** 2 });
  return stdout;
}

/** The objects of the chart with its defaults and every part that is left out by default. */
export async function renderedManifests(helm: string): Promise<Manifest[]> {
  const parts = 'http.replicas=2,serviceMonitor.enabled=true,autoscaling.enabled=true';
  return parseManifests(await renderChart(helm, [...NEEDED, '--set', parts]));
}

const SCHEMAS_FOLDER = fileURLToPath(new URL('schemas/', import.meta.url));
const ajv = new Ajv({ strict: false, validateFormats: false });
for (const file of readdirSync(SCHEMAS_FOLDER)) {
  ajv.addSchema(JSON.parse(readFileSync(join(SCHEMAS_FOLDER, file), 'utf8')) as object, basename(file, '.json'));
}

/** What Kubernetes' own schemas say against an object. */
export function problemsOf(manifest: Manifest): string[] {
  const [group, version] = manifest.apiVersion.includes('/')
    ? manifest.apiVersion.split('/')
    : ['', manifest.apiVersion];
  const name = [manifest.kind.toLowerCase(), group?.split('.')[0], version].filter(Boolean).join('-');
  const validate = ajv.getSchema(name);
  if (!validate) return [`there is no schema ${name}`];
  if (validate(manifest)) return [];
  return validate.errors!.map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

/** The pods that an object makes. */
export function podsOf(
  manifests: readonly Manifest[],
): { name: string; labels: Record<string, string>; annotations?: Record<string, string>; pod: PodSpec }[] {
  return manifests.flatMap(({ metadata: { name }, spec }) =>
    spec?.template ? [{ name, ...spec.template.metadata, pod: spec.template.spec }] : [],
  );
}
