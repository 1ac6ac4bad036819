/** What values change in the chart's objects: security, where pods go, what they may reach, and what is refused. */
import { expect, test, type TestContext } from 'vitest';
import { needToolchain } from '../support/toolchains.js';
import {
  dashed,
  EVERYTHING,
  NEEDED,
  parseManifests,
  podsOf,
  problemsOf,
  renderChart,
  setText,
  type Manifest,
} from './manifests.js';

/** What Helm makes of these values; the test is skipped if Helm is missing. */
async function rendered(context: Pick<TestContext, 'skip'>, ...args: readonly string[]): Promise<string> {
  return renderChart(await needToolchain(context, 'helm'), args);
}

const setJson = (values: Record<string, unknown>) =>
  Object.entries(values).flatMap(([path, value]) => ['--set-json', `${path}=${JSON.stringify(value)}`]);

const RESTRICTED = ['runAsUser', 'runAsGroup', 'fsGroup'].flatMap((key) => ['--set', `podSecurityContext.${key}=null`]);

test('under a platform that chooses user and group, nothing but them is left out', async (context) => {
  const usual = await rendered(context, ...EVERYTHING);
  const restricted = await rendered(context, ...EVERYTHING, ...RESTRICTED);
  const chosen = /^ +(?:runAsUser|runAsGroup|fsGroup): 10001\n/gm;
  expect(usual.match(chosen)).toHaveLength(4 * 3);
  expect(restricted).toBe(usual.replaceAll(chosen, ''));
  for (const { pod } of podsOf(parseManifests(restricted))) {
    expect(pod.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    });
  }
});

test('a container may do without a key of its security context, or have another', async (context) => {
  const changed = ['--set', 'securityContext.readOnlyRootFilesystem=null,securityContext.privileged=false'];
  for (const { pod } of podsOf(parseManifests(await rendered(context, ...EVERYTHING, ...changed)))) {
    const rest = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
    expect(pod.containers[0]!.securityContext).toEqual({ ...rest, privileged: false });
  }
});

test('without the values of security, as after --reuse-values, the pods have them all the same', async (context) => {
  const without = ['--set', 'podSecurityContext=null,securityContext=null'];
  expect(await rendered(context, ...EVERYTHING, ...without)).toBe(await rendered(context, ...EVERYTHING));
});

test('all pods go where the common values say, but for what HTTP and set-up say themselves', async (context) => {
  const values = (mark: string) => ({
    podAnnotations: { mark },
    nodeSelector: { mark },
    tolerations: [{ key: mark }],
    affinity: {
      nodeAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 1, preference: { matchExpressions: [{ key: mark, operator: 'Exists' }] } },
        ],
      },
    },
  });
  const placed = async (...args: string[]) => {
    const manifests = parseManifests(await rendered(context, ...EVERYTHING, ...args));
    expect(manifests.flatMap(problemsOf)).toEqual([]);
    return podsOf(manifests).map(({ annotations, pod }) => {
      const { nodeSelector, tolerations, affinity, containers } = pod;
      return [containers[0]!.name, { podAnnotations: annotations, nodeSelector, tolerations, affinity }] as const;
    });
  };
  const common = setJson(values('common'));
  const everywhere = await placed(...common);
  expect(everywhere.map(([name]) => name).toSorted()).toEqual(['http', 'setup', 'worker', 'worker']);
  for (const [name, found] of everywhere) expect(found, name).toEqual(values('common'));
  const own = setJson({ http: values('http'), setup: { podAnnotations: {}, nodeSelector: {} } });
  expect(new Map(await placed(...common, ...own))).toEqual(
    new Map<string, object>([
      ['http', values('http')],
      ['worker', values('common')],
      ['setup', { ...values('common'), podAnnotations: undefined, nodeSelector: undefined }],
    ]),
  );
  const none = { podAnnotations: undefined, nodeSelector: undefined, tolerations: undefined, affinity: undefined };
  for (const [name, found] of await placed()) expect(found, name).toEqual(none);
});

test('environment and volumes are of the workers, of HTTP or of the set-up, never of two', async (context) => {
  const extra = (mark: string) => ({
    extraEnv: [{ name: 'MARK', value: mark }],
    extraVolumes: [{ name: mark, emptyDir: {} }],
    extraVolumeMounts: [{ name: mark, mountPath: `/${mark}` }],
  });
  const args = setJson({ ...extra('worker'), http: extra('http'), setup: extra('setup') });
  for (const { pod } of podsOf(parseManifests(await rendered(context, ...EVERYTHING, ...args)))) {
    const { name, env, volumeMounts } = pod.containers[0]!;
    expect(env.filter((each) => each.name === 'MARK')).toEqual([{ name: 'MARK', value: name }]);
    const marks = ['worker', 'http', 'setup'].filter((mark) => mark === name);
    expect(volumeMounts.flatMap(({ mountPath }) => /^\/(worker|http|setup)$/.exec(mountPath)?.[1] ?? [])).toEqual(
      marks,
    );
    expect(pod.volumes.filter((volume) => 'emptyDir' in volume).map((volume) => volume.name)).toEqual([
      'tmp',
      ...marks,
    ]);
  }
});

test('the set-up has its network before it runs, and leaves nothing behind that succeeded', async (context) => {
  const manifests = parseManifests(await rendered(context, ...EVERYTHING));
  const hooks = manifests.flatMap(({ kind, metadata: { annotations } }) =>
    annotations?.['helm.sh/hook'] ? [[kind, annotations] as const] : [],
  );
  const shared = {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
  };
  // Without a weight a hook has the weight 0.
  expect(new Map(hooks)).toEqual(
    new Map<string, object>([
      ['Job', shared],
      ['NetworkPolicy', { ...shared, 'helm.sh/hook-weight': '-5' }],
    ]),
  );
  const off = await rendered(context, ...EVERYTHING, '--set', 'networkPolicy.enabled=false');
  expect(parseManifests(off).filter(({ kind }) => kind === 'NetworkPolicy')).toEqual([]);
  const without = parseManifests(await rendered(context, ...EVERYTHING, '--set', 'setup.enabled=false'));
  expect(without.filter(({ metadata }) => metadata.name.startsWith('agent-jobs-setup'))).toEqual([]);
});

/** The TCP ports, except that of DNS, that each policy lets out. */
function egressOf(manifests: readonly Manifest[]): Record<string, number[]> {
  const policies = manifests.filter(({ kind }) => kind === 'NetworkPolicy');
  type Egress = { to?: unknown; ports: { port: number }[] }[];
  return Object.fromEntries(
    policies.map(({ metadata, spec }) => {
      const anywhere = (spec!['egress'] as Egress).filter(({ to }) => JSON.stringify(to)?.includes('0.0.0.0/0'));
      return [metadata.name, anywhere.flatMap(({ ports }) => ports.map(({ port }) => port)).toSorted((a, b) => a - b)];
    }),
  );
}

test.for([
  [[443, 7233], []],
  [[443, 7443], setText('temporal.address=cloud.example:7443')],
  [[443, 7233, 8443], setText('upstream.baseUrl=https://me:secret@u.example:8443/base')],
  [[80, 443, 7233], setText('upstream.baseUrl=http://u.example/a:81')],
  [[443, 3128, 7233], setText('temporal.proxy=proxy:3128')],
  [[443, 3128, 7233], setText('temporal.proxy=http://me:secret@[fd00::1]:3128')],
  [
    [80, 443, 3128, 3129, 7233],
    setText(
      ...['settings.HTTPS_PROXY=http://proxy:3128', 'settings.HTTP_PROXY=http://proxy'],
      ...['settings.WEBHOOKS_PROXY=https://proxy:3129/', 'settings.NO_PROXY=a:1'],
    ),
  ],
  [
    [7233, 9000],
    [...setText('upstream.baseUrl=http://u.example:9000'), ...setJson({ 'networkPolicy.egressPorts': [9000] })],
  ],
] as const)('the ports %j are let out for the addresses that values name', async ([ports, args], context) => {
  const values = ['--set', 'http.replicas=2', ...setJson({ 'networkPolicy.egressPorts': [443] })];
  const manifests = parseManifests(await rendered(context, ...NEEDED, ...values, ...args));
  const names = ['agent-jobs', 'agent-jobs-http', 'agent-jobs-setup'];
  expect(egressOf(manifests)).toEqual(Object.fromEntries(names.map((name) => [name, ports])));
});

test('workers of jobs scale by the open jobs of their own version', async (context) => {
  const scaled = async (...args: string[]) => {
    const manifests = parseManifests(await rendered(context, ...EVERYTHING, ...args));
    const { spec } = manifests.find(({ kind }) => kind === 'ScaledObject')!;
    const { minReplicaCount, triggers } = spec as {
      minReplicaCount: number;
      triggers: { metadata: { query: string } }[];
    };
    return { minReplicaCount, queries: triggers.map(({ metadata }) => metadata.query) };
  };
  const query = (selector: string) => `max(sum by (instance) (agent_jobs_open{${selector}}))`;
  const tag = setText('image.tag=1.1.0_a', 'autoscaling.selector=job="mine"');
  expect(await scaled(...tag)).toEqual({ minReplicaCount: 2, queries: [query('job="mine",version="1-1-0-a"')] });
  expect((await scaled(...setText('autoscaling.selector='))).queries).toEqual([query(`version="${dashed}"`)]);
  const unversioned = ['--set', 'versioning.enabled=false,autoscaling.minReplicas=1'];
  expect(await scaled(...unversioned)).toEqual({ minReplicaCount: 1, queries: [query('job="agent-jobs"')] });
});

const mounted = (mountPath: string, more = {}) => setJson({ extraVolumeMounts: [{ name: 'v', mountPath, ...more }] });

test.for([
  ['file:///snapshots', setText('snapshots.claim=claim')],
  ['file:///snapshots/a', setText('snapshots.claim=claim')],
  ['file:///data/', mounted('/data')],
  ['file:///data/a/b', mounted('/data/a/')],
  ['file:///data', ['--set', 'roles.exports.replicas=0']],
] as const)('snapshots in a folder stay where a volume is: %s', async ([url, args], context) => {
  expect(await rendered(context, ...NEEDED, ...setText(`snapshots.url=${url}`), ...args)).toContain(url);
});

test.for([
  ['file:///snapshots', []],
  ['file:///data', setText('snapshots.claim=claim')],
  ['file:///snapshots-2', setText('snapshots.claim=claim')],
  ['file:///data', mounted('/data/a')],
  ['file:///data', mounted('/data', { readOnly: true })],
  ['FILE:///data', []],
  ['file:///snapshots/../data', setText('snapshots.claim=claim')],
] as const)('snapshots in a folder without a volume are refused: %s', async ([url, args], context) => {
  const render = rendered(context, ...NEEDED, ...setText(`snapshots.url=${url}`), ...args);
  await expect(render).rejects.toThrow(`snapshots.url ${url} is in no volume: set snapshots.claim`);
});
