/** What Helm makes of the chart for Kubernetes: of its defaults, and of other values. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, type TestContext } from 'vitest';
import { parse } from 'yaml';
import { readHttpConfig, readWorkerConfig, WORKER_VARIABLES } from '../../src/config.js';
import { needToolchain } from '../support/toolchains.js';
import {
  CHART,
  dashed,
  EVERYTHING,
  NEEDED,
  parseManifests,
  podsOf,
  problemsOf,
  renderChart,
  renderedManifests,
  setText,
  version,
  type Manifest,
  type PodSpec,
} from './manifests.js';
import { newFolder } from '../support/folder.js';

/** A worker has ended by then. */
const SHUTDOWN_SECONDS = 25;
/** So has HTTP, after the pause of its manifest. */
const [PAUSE_SECONDS, HTTP_SHUTDOWN_SECONDS] = [5, 20];
/** What the chart sets itself, from other values. */
const SET_BY_CHART =
  /^(UPSTREAM_BASE_URL|SNAPSHOTS_URL|\w+_KEYS?_FILE|WEBHOOKS_FILE|WORKER_(ROLES|DEPLOYMENT|BUILD_ID)|\w+_ADDRESS)$/;
/** Values in manifests are read by many. */
const HOLDS_A_KEY = /^ADMIN_API_KEY$|_HEADERS$/;

/** The chart with its defaults; every test that asks for it is skipped if Helm is missing. */
async function chart(context: Pick<TestContext, 'skip'>) {
  const all = await renderedManifests(await needToolchain(context, 'helm'));
  const pods = podsOf(all);
  const containers = pods.flatMap(({ name: of, pod }) =>
    pod.containers.map((container) => ({ ...container, of, pod })),
  );
  const workers = containers.filter((container) => 'WORKER_ROLES' in settingsOf(container));
  return { all, pods, containers, workers };
}

const settingsOf = ({ env }: Pick<PodSpec['containers'][number], 'env'>) =>
  Object.fromEntries(env.map(({ name, value }) => [name, value]));

const kindsOf = (manifests: readonly Manifest[]) => manifests.map(({ kind }) => kind).toSorted();

test('the chart holds workers of both roles, the set-up, HTTP, and what goes with them', async (context) => {
  const { all, containers, workers } = await chart(context);
  expect(kindsOf(all)).toEqual([
    ...['Deployment', 'Deployment', 'Deployment'],
    'Job',
    ...['NetworkPolicy', 'NetworkPolicy', 'NetworkPolicy'],
    ...['PodDisruptionBudget', 'PodDisruptionBudget', 'PodDisruptionBudget'],
    'ScaledObject',
    ...['Service', 'Service'],
    'ServiceAccount',
    ...['ServiceMonitor', 'ServiceMonitor'],
  ]);
  expect(new Set(workers.map((worker) => settingsOf(worker)['WORKER_ROLES']))).toEqual(new Set(['jobs', 'exports']));
  expect(all.map(({ metadata }) => metadata.name)).toContain(`agent-jobs-setup-${dashed}`);
  for (const { of: name, image } of containers) expect(image, name).toBe(`agent-jobs:${version}`);
});

test('every container runs as a user without rights, on a file system that it cannot write to', async (context) => {
  const { containers } = await chart(context);
  expect(containers).toHaveLength(4);
  for (const { of: name, pod, securityContext, resources } of containers) {
    expect(pod.securityContext, name).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 10_001,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(pod.automountServiceAccountToken, name).toBe(false);
    expect(securityContext, name).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(resources.limits.memory, name).toMatch(/^\d+[MG]i$/);
  }
});

test('keys come from Secrets alone, mounted as folders that only their group can read', async (context) => {
  const { all, containers } = await chart(context);
  expect(kindsOf(all)).not.toContain('Secret');
  for (const { of: name, pod, env, volumeMounts } of containers) {
    expect(
      env.filter((each) => /KEY$|SECRET|TOKEN|PASSWORD/.test(each.name)),
      name,
    ).toEqual([]);
    const secrets = pod.volumes.filter(({ secret }) => secret);
    for (const { secret } of secrets) expect(secret!.defaultMode).toBe(0o440);
    const mounts = volumeMounts.filter((mount) => secrets.some((volume) => volume.name === mount.name));
    for (const mount of mounts) expect(mount).toEqual({ name: mount.name, mountPath: mount.mountPath, readOnly: true });
  }
});

test('a worker has the time that it needs to end, and is asked where it answers', async (context) => {
  const { workers } = await chart(context);
  for (const { of: name, pod, ...worker } of workers) {
    expect(pod.terminationGracePeriodSeconds, name).toBeGreaterThan(SHUTDOWN_SECONDS);
    const env = settingsOf(worker);
    const port = (portName: string) => worker.ports!.find((each) => each.name === portName)?.containerPort;
    expect(env['HEALTH_ADDRESS']).toBe(`[::]:${port('health')}`);
    expect(env['METRICS_ADDRESS']).toBe(`[::]:${port('metrics')}`);
    const probes = [worker.startupProbe, worker.livenessProbe, worker.readinessProbe].map((probe) => probe!.httpGet);
    expect(probes.map(({ path }) => path)).toEqual(['/healthz', '/healthz', '/readyz']);
    expect(new Set(probes.map((probe) => probe.port))).toEqual(new Set(['health']));
  }
});

test('a worker accepts its settings', async (context) => {
  const { workers } = await chart(context);
  const folder = newFolder();
  await writeFile(join(folder, 'admin_api_key'), 'a-key');
  for (const { of: name, env } of workers) {
    const settings = Object.fromEntries(
      env.map((each) => [each.name, each.value?.replace('/run/secrets/upstream', folder)]),
    );
    expect(readWorkerConfig(settings).roles, name).toEqual([settings['WORKER_ROLES']]);
  }
});

test('HTTP accepts its settings, listens where it is asked, and has the time that it needs to end', async (context) => {
  const { containers } = await chart(context);
  const { env, pod, ports, volumeMounts, args, ...probes } = containers.find(({ of }) => of === 'agent-jobs-http')!;
  expect(args).toEqual(['dist/cli/main.js', 'serve']);
  const folder = newFolder();
  await writeFile(join(folder, 'http_keys'), '{}');
  const { mountPath } = volumeMounts.find(({ name }) => name === 'http')!;
  const settings = settingsOf({ env });
  settings['HTTP_KEYS_FILE'] = settings['HTTP_KEYS_FILE']?.replace(mountPath, folder);
  const { address, healthAddress, keysFile, strangersPerAddress } = readHttpConfig(settings);
  expect([keysFile, strangersPerAddress]).toEqual([join(folder, 'http_keys'), 0]);
  expect(settings['HTTP_ADDRESS']).toBe(`[::]:${address.port}`);
  expect(ports).toEqual([
    { name: 'http', containerPort: address.port },
    { name: 'health', containerPort: healthAddress!.port },
  ]);
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(PAUSE_SECONDS + HTTP_SHUTDOWN_SECONDS);
  const asked = [probes.startupProbe, probes.livenessProbe, probes.readinessProbe].map((probe) => probe!.httpGet);
  expect(asked).toEqual(['/healthz', '/healthz', '/readyz'].map((path) => ({ path, port: 'health' })));
});

test('what selects pods selects those that it is meant for', async (context) => {
  const { all, pods } = await chart(context);
  const matching = (labels: Record<string, string>) =>
    pods
      .filter((pod) => Object.entries(labels).every(([label, value]) => pod.labels[label] === value))
      .map(({ name }) => name);
  const selected = all.flatMap(({ kind, metadata, spec }) => {
    const selector = (spec?.['selector'] ?? spec?.['podSelector']) as
      { matchLabels?: Record<string, string> } | undefined;
    if (!selector || kind === 'ServiceMonitor') return [];
    return [[`${kind} ${metadata.name}`, matching(selector.matchLabels ?? (selector as Record<string, string>))]];
  });
  const setup = expect.stringMatching(/^agent-jobs-setup-/) as string;
  expect(Object.fromEntries(selected)).toEqual({
    'Deployment agent-jobs-jobs': ['agent-jobs-jobs'],
    'Deployment agent-jobs-exports': ['agent-jobs-exports'],
    'Deployment agent-jobs-http': ['agent-jobs-http'],
    'PodDisruptionBudget agent-jobs-http': ['agent-jobs-http'],
    'PodDisruptionBudget agent-jobs-jobs': ['agent-jobs-jobs'],
    'PodDisruptionBudget agent-jobs-exports': ['agent-jobs-exports'],
    'Service agent-jobs-metrics': ['agent-jobs-jobs', 'agent-jobs-exports', setup],
    'NetworkPolicy agent-jobs': ['agent-jobs-jobs', 'agent-jobs-exports', setup],
    'Service agent-jobs-http': ['agent-jobs-http'],
    'NetworkPolicy agent-jobs-http': ['agent-jobs-http'],
    'NetworkPolicy agent-jobs-setup': [setup],
  });
});

test('the chart has the version of the package, and takes every setting of a worker but keys', async () => {
  expect(parse(await readFile(join(CHART, 'Chart.yaml'), 'utf8'))).toMatchObject({ version, appVersion: version });
  const { properties } = JSON.parse(await readFile(join(CHART, 'values.schema.json'), 'utf8')) as {
    properties: { settings: { properties: object } };
  };
  const free = WORKER_VARIABLES.filter((name) => !HOLDS_A_KEY.test(name) && !SET_BY_CHART.test(name));
  expect(Object.keys(properties.settings.properties).toSorted()).toEqual(free.toSorted());
});

interface Schema {
  properties?: Record<string, Schema>;
}

/** Each value of the chart by its path; of what Kubernetes knows itself, such as resources, the whole. */
function pathsOf(schema: Schema, path = ''): string[] {
  if (!schema.properties) return [path];
  return Object.entries(schema.properties).flatMap(([key, value]) => pathsOf(value, path ? `${path}.${key}` : key));
}

test('the schema has every value, and every value but those of one part alone has a default', async () => {
  const values = parse(await readFile(join(CHART, 'values.yaml'), 'utf8')) as object;
  const schema = JSON.parse(await readFile(join(CHART, 'values.schema.json'), 'utf8')) as Schema;
  const valueAt = (path: string) =>
    path.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], values);
  const without = pathsOf(schema).filter((path) => valueAt(path) === undefined && !path.startsWith('settings.'));
  const ofOnePart = ['podAnnotations', 'nodeSelector', 'tolerations', 'affinity'];
  expect(without).toEqual(['global', ...['http', 'setup'].flatMap((part) => ofOnePart.map((key) => `${part}.${key}`))]);
});

test('with everything turned on, every object is valid, and a version has workers of its own', async (context) => {
  const manifests = parseManifests(await renderChart(await needToolchain(context, 'helm'), EVERYTHING));
  for (const manifest of manifests) expect(problemsOf(manifest), manifest.metadata.name).toEqual([]);
  const kept = manifests.filter(({ metadata }) => metadata.annotations?.['helm.sh/resource-policy'] === 'keep');
  expect(kept.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted()).toEqual([
    `Deployment agent-jobs-exports-${dashed}`,
    `Deployment agent-jobs-jobs-${dashed}`,
    `ScaledObject agent-jobs-jobs-${dashed}`,
  ]);
  for (const { pod } of podsOf(manifests)) {
    for (const { env, volumeMounts } of pod.containers) {
      const paths = env.map(({ value }) => value).filter((value) => value?.startsWith('/run/secrets/'));
      const folders = volumeMounts.map(({ mountPath }) => mountPath);
      expect(paths.filter((path) => !folders.some((folder) => path!.startsWith(`${folder}/`)))).toEqual([]);
      expect(volumeMounts.every(({ name }) => pod.volumes.some((volume) => volume.name === name))).toBe(true);
    }
  }
});

test.for([
  ['temporal.address is missing', setText('temporal.address=')],
  ['upstream.baseUrl is missing', setText('upstream.baseUrl=')],
  ['snapshots.url is missing', setText('snapshots.url=')],
  ['LOGLEVEL', setText('settings.LOGLEVEL=debug')],
  ['ADMIN_API_KEY', setText('settings.ADMIN_API_KEY=a-key')],
  ['memory', setText('roles.jobs.memory=2Gi')],
  ['request', setText('http.resources.request.cpu=1')],
  ['minReplicas', ['--set', 'autoscaling.minReplicas=0']],
] as const)('a value that is wrong or missing is named: %s', async ([text, args], context) => {
  const helm = await needToolchain(context, 'helm');
  await expect(renderChart(helm, [...NEEDED, ...args])).rejects.toThrow(text);
});
