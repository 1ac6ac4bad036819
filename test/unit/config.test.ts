import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  ConfigError,
  readClientConfig,
  readSnapshotsConfig,
  readUpstreamConfig,
  readWorkerConfig,
  upstreamWarnings,
} from '../../src/config.js';
import type { Environment } from '../../src/config.js';
import { newFolder } from '../support/folder.js';

const minimal = { UPSTREAM_BASE_URL: 'https://api.example.com', ADMIN_API_KEY: 'the-secret-key' };

const folder = newFolder();

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

function problemsOf(env: Environment, read: (env: Environment) => unknown = readWorkerConfig): Record<string, string> {
  try {
    read(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return Object.fromEntries(error.problems.map(({ variable, problem }) => [variable, problem]));
  }
  return {};
}

describe('readWorkerConfig', () => {
  test('needs nothing but the upstream and its key, and takes an empty variable for unset', () => {
    // A proxy to Temporal has a setting of its own.
    const config = readWorkerConfig({ ...minimal, LOG_LEVEL: '', UPSTREAM_TIMEOUT: ' ', HTTPS_PROXY: 'proxy:3128' });
    expect(config.temporal.connectionOptions).not.toHaveProperty('proxy');
    expect(config).toMatchObject({
      taskQueue: 'agent-jobs',
      roles: ['jobs'],
      temporal: { address: 'localhost:7233', namespace: 'default', connectionOptions: {} },
      upstream: { baseUrl: 'https://api.example.com', timeoutMs: 20_000, notTakenStatuses: [] },
      log: { level: 'info', format: 'json' },
    });
    expect(config.upstream.proxy).toEqual({ httpsProxy: 'http://proxy:3128' });
    expect(problemsOf({ ...minimal, ADMIN_API_KEY: '' })).toHaveProperty('ADMIN_API_KEY');
  });

  test('reads every setting', () => {
    const config = readWorkerConfig({
      ...minimal,
      AGENT_JOBS_TASK_QUEUE: 'my-jobs',
      WORKER_ROLES: 'exports, jobs',
      TEMPORAL_ADDRESS: 'temporal.example.com:7233',
      TEMPORAL_NAMESPACE: 'prod',
      TEMPORAL_API_KEY: 'temporal-key',
      UPSTREAM_BASE_URL: 'http://127.0.0.1:8080/base/',
      PROJECT_KEYS_FILE: file('keys.json', '{"p": "k"}'),
      UPSTREAM_TIMEOUT: '15 seconds',
      UPSTREAM_REQUESTS_PER_SECOND: '2.5',
      UPSTREAM_NOT_TAKEN_STATUSES: '503, 409, 408',
      UPSTREAM_END_STATUSES: 'Cancelled = failed, done=Completed',
      HTTPS_PROXY: 'http://proxy.example.com:3128',
      no_proxy: 'localhost,.example.com',
      SNAPSHOTS_URL: 's3://bucket/prefix/',
      CREATES_PER_HOUR: '100',
      CREATES_PER_DAY: '800',
      MESSAGES_PER_HOUR: 'unlimited',
      MESSAGES_PER_DAY: '500',
      PROJECT_BUDGETS_FILE: file('budgets.json', '{"p": {"createsPerHour": 5}}'),
      EXPORT_REQUESTS_PER_HOUR: '60',
      CONFIRM_WRITES_BEFORE: '2026-07-01T14:30:00+02:00',
      WORKER_DEPLOYMENT: 'agent-jobs',
      WORKER_BUILD_ID: '0.3.0+7-a_b',
      WORKER_STALE_COPY_GUARD: 'off',
      S3_FORCE_PATH_STYLE: 'true',
      HEALTH_ADDRESS: '[::1]:8081',
      METRICS_ADDRESS: '0.0.0.0:9464',
      LOG_LEVEL: 'debug',
      LOG_FORMAT: 'text',
    });
    expect(config).toMatchObject({
      taskQueue: 'my-jobs',
      roles: ['jobs', 'exports'],
      temporal: {
        address: 'temporal.example.com:7233',
        namespace: 'prod',
        connectionOptions: { apiKey: 'temporal-key', tls: true },
      },
      upstream: {
        baseUrl: 'http://127.0.0.1:8080/base',
        timeoutMs: 15_000,
        notTakenStatuses: [503, 409, 408],
        endStatuses: new Map([
          ['cancelled', 'failed'],
          ['done', 'completed'],
        ]),
        proxy: { httpsProxy: 'http://proxy.example.com:3128', noProxy: 'localhost,.example.com' },
      },
      upstreamRequestsPerSecond: 2.5,
      snapshots: { url: 's3://bucket/prefix', forcePathStyle: true },
      budgets: { createsPerHour: 100, messagesPerHour: 'unlimited', projectBudgetsFile: join(folder, 'budgets.json') },
      exportRequestsPerHour: 60,
      confirmWritesBefore: '2026-07-01T12:30:00.000Z',
      deployment: { name: 'agent-jobs', buildId: '0.3.0+7-a_b' },
      guardsStaleCopies: false,
      healthAddress: { host: '::1', port: 8081 },
      metricsAddress: { host: '0.0.0.0', port: 9464 },
      log: { level: 'debug', format: 'text' },
    });
  });

  test('names every missing and every wrong variable in one report, and no value', () => {
    const wrong = {
      ADMIN_API_KEY: 'a secret\u00a0key',
      ADMIN_API_KEY_FILE: join(folder, 'missing'),
      PROJECT_KEYS_FILE: file('broken.json', '{"p": "project-secret'),
      WORKER_ROLES: 'jobs,imports',
      TEMPORAL_TLS_CLIENT_CERT_PATH: join(folder, 'missing.pem'),
      TEMPORAL_TLS_CLIENT_KEY_PATH: join(folder, 'missing.key'),
      UPSTREAM_TIMEOUT: '21 seconds',
      UPSTREAM_REQUESTS_PER_SECOND: '0',
      UPSTREAM_NOT_TAKEN_STATUSES: '429',
      UPSTREAM_END_STATUSES: 'secret',
      SNAPSHOTS_URL: 'file://host/dir',
      CREATES_PER_HOUR: '1.5',
      CREATES_PER_DAY: '-1',
      MESSAGES_PER_HOUR: '0',
      MESSAGES_PER_DAY: 'none',
      PROJECT_BUDGETS_FILE: file('wrong-budgets.json', '{"p": {"createsPerHour": "secret"}}'),
      EXPORT_REQUESTS_PER_HOUR: 'many',
      CONFIRM_WRITES_BEFORE: '2026-02-30T12:30:00Z',
      WORKER_DEPLOYMENT: 'agent:jobs',
      WORKER_BUILD_ID: 'a/b',
      WORKER_STALE_COPY_GUARD: 'true',
      S3_FORCE_PATH_STYLE: 'maybe',
      HEALTH_ADDRESS: '8080',
      METRICS_ADDRESS: '::1:70000',
      LOG_LEVEL: 'loud',
      LOG_FORMAT: 'xml',
    };
    expect(Object.keys(problemsOf(wrong)).sort()).toEqual([...Object.keys(wrong), 'UPSTREAM_BASE_URL'].sort());
    const report = String(catchError(() => readWorkerConfig(wrong)));
    expect(report).toContain(`${Object.keys(wrong).length + 1} settings are wrong`);
    expect(report).toMatch(/UPSTREAM_BASE_URL +is missing; it should be the http or https address/);
    for (const value of [wrong.ADMIN_API_KEY, wrong.UPSTREAM_TIMEOUT]) expect(report).not.toContain(value);
    expect(report).not.toContain('secret');
  });

  test('says what is wrong with a file of budgets', () => {
    const path = file('budgets.json', '{"p": {"createsPerHour": 5, "perHour": 100}}');
    const names = 'createsPerHour, createsPerDay, messagesPerHour or messagesPerDay';
    const problem = `project "p": should be an object with ${names}, and no other field`;
    expect(problemsOf({ ...minimal, PROJECT_BUDGETS_FILE: path }).PROJECT_BUDGETS_FILE).toBe(`${path}: ${problem}`);
  });

  test('takes the key for Temporal from its file, before the variable', () => {
    const path = file('temporal-key', ' a-key-in-a-file\n');
    const env = { ...minimal, TEMPORAL_API_KEY: 'in-a-variable', TEMPORAL_API_KEY_FILE: path };
    expect(readWorkerConfig(env).temporal.connectionOptions).toMatchObject({ apiKey: 'a-key-in-a-file', tls: true });
    file('temporal-key', '\n');
    expect(problemsOf(env)['TEMPORAL_*']).toContain('TEMPORAL_API_KEY_FILE is empty');
    expect(problemsOf({ ...env, TEMPORAL_API_KEY_FILE: join(folder, 'no-key') })).toHaveProperty(
      'TEMPORAL_API_KEY_FILE',
    );
  });

  test('refuses a key for Temporal that no header can hold, and does not show it', () => {
    const report = String(catchError(() => readWorkerConfig({ ...minimal, TEMPORAL_API_KEY: 'secret\nkey' })));
    expect(report).toContain('TEMPORAL_API_KEY holds a character');
    expect(report).not.toContain('secret');
  });

  test('takes a proxy to Temporal with its credentials, refuses what can be none, and does not show it', () => {
    const proxyOf = (text: string) =>
      readWorkerConfig({ ...minimal, TEMPORAL_PROXY: text }).temporal.connectionOptions.proxy;
    expect(proxyOf('http://[::1]')).toEqual({ type: 'http-connect', targetHost: '[::1]:80' });
    const basicAuth = { username: 'me', password: 'p@ss' };
    expect(proxyOf('me:p%40ss@proxy.corp:3128')).toMatchObject({ targetHost: 'proxy.corp:3128', basicAuth });
    for (const text of ['https://secret@proxy', 'socks5://secret:1080', 'http://secret:%zz@proxy', 'secret:port']) {
      const { TEMPORAL_PROXY: problem } = problemsOf({ ...minimal, TEMPORAL_PROXY: text });
      expect(problem, text).toBe('should be host:port, or http://user:password@host:port');
    }
  });

  test('serves the jobs alone without SNAPSHOTS_URL, unless WORKER_ROLES names exports', () => {
    expect(readWorkerConfig(minimal).roles).toEqual(['jobs']);
    expect(readWorkerConfig({ ...minimal, SNAPSHOTS_URL: 'file:///data' }).roles).toEqual(['jobs', 'exports']);
    expect(readWorkerConfig({ ...minimal, SNAPSHOTS_URL: 'file:///data', WORKER_ROLES: 'exports' }).roles).toEqual([
      'exports',
    ]);
    expect(problemsOf({ ...minimal, WORKER_ROLES: 'exports' })).toHaveProperty('SNAPSHOTS_URL');
  });

  test('takes a key from a file or a key per project for ADMIN_API_KEY, and the file before the variable', () => {
    const { UPSTREAM_BASE_URL } = minimal;
    const adminApiKeyFile = file('key', 'k\n');
    const projectKeysFile = file('project-keys.json', '{}');
    expect(readWorkerConfig({ ...minimal, ADMIN_API_KEY_FILE: adminApiKeyFile }).upstream.keys).toEqual({
      adminApiKeyFile,
    });
    expect(readUpstreamConfig({ UPSTREAM_BASE_URL, PROJECT_KEYS_FILE: projectKeysFile }).keys).toEqual({
      projectKeysFile,
    });
  });

  test('takes addresses without what nothing follows', () => {
    for (const address of ['https://host/base/?', 'https://host/base#', 'https://host/base/?#']) {
      expect(readUpstreamConfig({ ...minimal, UPSTREAM_BASE_URL: address }).baseUrl).toBe('https://host/base');
    }
    const places = ['file:///data/', 'file:///', 's3://bucket'].map((SNAPSHOTS_URL) => ({ SNAPSHOTS_URL }));
    expect(places.map((env) => readSnapshotsConfig(env).url)).toEqual(['file:///data', 'file:///', 's3://bucket']);
  });

  test('says what SNAPSHOTS_URL should be where a command needs it', () => {
    const shouldBe = /SNAPSHOTS_URL +is missing; it should be file:\/\/\/dir or s3:\/\/bucket\/prefix/;
    expect(() => readSnapshotsConfig({})).toThrow(shouldBe);
  });

  test.each([
    ['UPSTREAM_BASE_URL', ['user:pass@host', 'ftp://host', 'https://u:p@host', 'https://host/?q', 'https://host/#f']],
    ['UPSTREAM_TIMEOUT', ['0', '-1 second', '20001', 'soon', '0.5 hours']],
    [
      'UPSTREAM_END_STATUSES',
      ['cancelled', 'active=failed', 'Failed=completed', 'a=active', 'a=failed,A=completed', '=failed'],
    ],
    ['UPSTREAM_NOT_TAKEN_STATUSES', ['401', '409,403', '404', '429', '303', '4xx', '600']],
    ['SNAPSHOTS_URL', ['file:/data', 'data', 's3:///prefix', 'https://bucket', 's3://key:secret@bucket']],
    ['EXPORT_REQUESTS_PER_HOUR', ['0', '1.5', '-3', 'Infinity']],
    // Temporal takes no poll of a longer name, and of one that its own queues may have.
    ['AGENT_JOBS_TASK_QUEUE', ['q'.repeat(201), 'é'.repeat(34), '/_sys/jobs']],
  ])('%s refuses what it should not be', (variable, texts) => {
    for (const text of texts)
      expect(Object.keys(problemsOf({ ...minimal, [variable]: text })), text).toEqual([variable]);
  });
});

test('an upstream without TLS is warned about, unless it is on this machine', () => {
  const warn = (url: string) => upstreamWarnings(readUpstreamConfig({ ...minimal, UPSTREAM_BASE_URL: url })).length;
  expect(['http://api.example.com', 'http://127.evil.example', 'http://sandbox:8080'].map(warn)).toEqual([1, 1, 1]);
  expect(['https://api.example.com', 'http://127.1:1', 'http://localhost:1', 'http://[::1]:1'].map(warn)).toEqual([
    ...[0, 0, 0, 0],
  ]);
});

test.each(['socks5://secret:1080', 'http://secret:port', 'http://secret:%zz@proxy', 'http://'])(
  'a proxy that can’t be used (%s) is left out with a warning',
  (text) => {
    const upstream = readUpstreamConfig({ ...minimal, HTTPS_PROXY: text, http_proxy: text });
    expect(upstream.proxy).toEqual({});
    const warnings = upstreamWarnings(upstream).map((warning) => warning.split(': it should be ')[0]);
    expect(warnings).toEqual(['HTTPS_PROXY is not used', 'HTTP_PROXY is not used']);
    expect(upstreamWarnings(upstream).join()).not.toContain('secret');
  },
);

describe('readClientConfig', () => {
  test('needs no upstream', () => {
    expect(readClientConfig({})).toMatchObject({ taskQueue: 'agent-jobs', temporal: { namespace: 'default' } });
  });

  test('refuses the name of a task queue that Temporal refuses, as a worker does', () => {
    expect(readClientConfig({ AGENT_JOBS_TASK_QUEUE: 'q'.repeat(200) }).taskQueue).toHaveLength(200);
    const problems = problemsOf({ AGENT_JOBS_TASK_QUEUE: 'q'.repeat(201) }, readClientConfig);
    expect(problems).toEqual({ AGENT_JOBS_TASK_QUEUE: expect.stringContaining('200 bytes') as string });
  });

  test('reads a profile of a configuration file, and the environment before it', () => {
    const path = file(
      'temporal.toml',
      '[profile.prod]\naddress = "prod:7233"\nnamespace = "jobs"\napi_key = "secret"\n',
    );
    const env = { TEMPORAL_CONFIG_FILE: path, TEMPORAL_PROFILE: 'prod', TEMPORAL_NAMESPACE: 'other' };
    expect(readClientConfig(env).temporal).toMatchObject({
      address: 'prod:7233',
      namespace: 'other',
      connectionOptions: { tls: true },
    });
  });

  test.each(['http://127.0.0.1:7233', 'dns:///temporal:7233', '127.0.0.1:', '::1', 'temporal:7233/'])(
    'refuses %s as the address of Temporal, of the environment and of a caller',
    (address) => {
      const problem = expect.stringContaining('should be host:port') as string;
      const problems = { TEMPORAL_ADDRESS: problem };
      expect(problemsOf({ TEMPORAL_ADDRESS: address }, readClientConfig)).toEqual(problems);
      expect(problemsOf({ ...minimal, TEMPORAL_ADDRESS: address })).toEqual(problems);
      expect(problemsOf({}, (env) => readClientConfig(env, address))).toEqual({ address: problem });
      const read = (given: string) => readClientConfig({ TEMPORAL_ADDRESS: address }, given).temporal.address;
      expect(['prod', '[::1]:7233'].map(read)).toEqual(['prod', '[::1]:7233']);
    },
  );

  test('reports a configuration file that is missing or broken, without its content', () => {
    const broken = file('broken.toml', '[profile.default]\napi_key = "toml-secret\n');
    expect(problemsOf({ TEMPORAL_CONFIG_FILE: broken }, readClientConfig)['TEMPORAL_*']).not.toContain('toml-secret');
    expect(problemsOf({ TEMPORAL_CONFIG_FILE: join(folder, 'no.toml') }, readClientConfig)).toHaveProperty(
      'TEMPORAL_CONFIG_FILE',
    );
    expect(
      problemsOf({ TEMPORAL_PROFILE: 'nowhere', TEMPORAL_CONFIG_FILE: file('e.toml', '') }, readClientConfig),
    ).toHaveProperty('TEMPORAL_*');
  });
});

function catchError(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}
