/** The settings of a worker and of `serve`. With config/client.ts this is the only reader of the environment. */
import { homedir } from 'node:os';
import { z } from 'zod';
import {
  type Environment,
  present,
  problemsOf,
  plainAddress,
  readPayloadKeys,
  readTemporal,
  TASK_QUEUE_RULE,
  taskQueueName,
  type TemporalSettings,
  WEB_UI_RULE,
} from './config/client.js';
import { ConfigError, type ConfigProblem, isLoopback } from './config/config-error.js';
import * as fields from './config/fields.js';
import { field } from './config/fields.js';
import { DEFAULT_TASK_QUEUE } from './contract.js';
import { UNLIMITED } from './contract/request-queue.js';

export { processEnvironment, readClientConfig, readPayloadKeys } from './config/client.js';
export type { PayloadKeys } from './config/payload-keys.js';
export { cannotListen, ConfigError, upstreamWarnings } from './config/config-error.js';
export type { ListenAddress, WorkerRole } from './config/fields.js';
export type { Environment, TemporalSettings } from './config/client.js';

const upstreamSchema = z.object({
  UPSTREAM_BASE_URL: fields.baseUrlField,
  ADMIN_API_KEY: fields
    .textField('the key itself: visible ASCII characters without spaces', /^[\x21-\x7e]+$/)
    .optional(),
  ADMIN_API_KEY_FILE: fields.keyFileField.optional(),
  PROJECT_KEYS_FILE: fields.projectKeysFileField.optional(),
  UPSTREAM_TIMEOUT: fields.durationField('20 seconds', '15 seconds').default(20_000),
  UPSTREAM_NOT_TAKEN_STATUSES: fields.statusListField.default([]),
  UPSTREAM_END_STATUSES: fields.endStatusesField.default(new Map()),
  HTTPS_PROXY: fields.standardProxyField.optional(),
  HTTP_PROXY: fields.standardProxyField.optional(),
  NO_PROXY: z.string().optional(),
});

/** Otherwise the AWS SDK warns of Node's age with each command; which Node is supported, README says. */
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';

/** The AWS SDK looks for files at home. A container may run without HOME, under a user id that has no entry. */
try {
  homedir();
} catch {
  process.env['HOME'] = '/nonexistent';
}

const snapshotsSchema = z.object({
  SNAPSHOTS_URL: fields.snapshotsUrlField.optional(),
  S3_FORCE_PATH_STYLE: fields.flagField.default(false),
});

const webhooksSchema = z.object({
  WEBHOOKS_FILE: z.string().optional(),
  WEBHOOKS_ALLOW_PRIVATE: fields.flagField.default(false),
  WEBHOOKS_PROXY: fields.proxyField.optional(),
  AGENT_JOBS_WEB_UI_URL: field(WEB_UI_RULE, plainAddress).optional(),
});

const logLevelField = fields.wordField('trace', 'debug', 'info', 'warn', 'error');
const logFormatField = fields.wordField('json', 'text');
/** From the most detailed level to errors alone. */
export type LogLevel = z.output<typeof logLevelField>;
/** JSON for machines, text for a terminal. */
export type LogFormat = z.output<typeof logFormatField>;

const workerSchema = z.object({
  AGENT_JOBS_TASK_QUEUE: field(TASK_QUEUE_RULE, taskQueueName).default(DEFAULT_TASK_QUEUE),
  ...upstreamSchema.shape,
  ...snapshotsSchema.shape,
  CREATES_PER_HOUR: fields.wholeNumberOr(UNLIMITED).optional(),
  CREATES_PER_DAY: fields.wholeNumberOr(UNLIMITED).optional(),
  MESSAGES_PER_HOUR: fields.wholeNumberOr(UNLIMITED).optional(),
  MESSAGES_PER_DAY: fields.wholeNumberOr(UNLIMITED).optional(),
  PROJECT_BUDGETS_FILE: fields.projectBudgetsFileField.optional(),
  WORKER_ROLES: fields.rolesField.optional(),
  UPSTREAM_REQUESTS_PER_SECOND: fields.positiveNumberField.optional(),
  EXPORT_REQUESTS_PER_HOUR: fields.wholeNumberField.optional(),
  PAYLOAD_KEYS_FILE: z.string().optional(),
  CONFIRM_WRITES_BEFORE: fields.timeField.optional(),
  WORKER_DEPLOYMENT: fields.textField('a name of 1 to 100 letters, digits, - and _', /^[\w-]{1,100}$/).optional(),
  WORKER_BUILD_ID: fields.textField('1 to 100 letters, digits, and . _ + -', /^[\w.+-]{1,100}$/).optional(),
  WORKER_STALE_COPY_GUARD: fields.wordField('on', 'off').default('on'),
  HEALTH_ADDRESS: fields.listenAddressField.optional(),
  METRICS_ADDRESS: fields.listenAddressField.optional(),
  LOG_LEVEL: logLevelField.default('info'),
  LOG_FORMAT: logFormatField.default('json'),
});

/** Every variable of a worker, but Temporal's own. */
export const WORKER_VARIABLES: readonly string[] = [
  ...Object.keys(workerSchema.shape),
  ...Object.keys(webhooksSchema.shape),
];

/** The settings of a worker. */
export type WorkerConfig = ReturnType<typeof toWorker>;

/** All settings of a worker; throws a ConfigError that names every wrong one. */
export function readWorkerConfig(environment: Environment = process.env): WorkerConfig {
  const env = present(environment);
  const { data, error } = workerSchema.safeParse(env);
  const problems = [
    ...(error ? toProblems(error) : []),
    ...problemsOf(() => readTemporal(env)),
    ...problemsOf(() => readPayloadKeys(env)),
    ...missingSettings(env, data?.WORKER_ROLES),
  ];
  if (!data || problems.length > 0) throw new ConfigError(problems);
  return toWorker(env, data);
}

function toWorker(env: Record<string, string>, values: z.output<typeof workerSchema>) {
  const { WORKER_DEPLOYMENT: deployment, WORKER_BUILD_ID: buildId, SNAPSHOTS_URL: snapshotsUrl } = values;
  const defaultRoles: fields.WorkerRole[] = snapshotsUrl ? ['jobs', 'exports'] : ['jobs'];
  return {
    taskQueue: values.AGENT_JOBS_TASK_QUEUE,
    temporal: readTemporal(env),
    roles: values.WORKER_ROLES ?? defaultRoles,
    upstream: toUpstream(values),
    upstreamRequestsPerSecond: values.UPSTREAM_REQUESTS_PER_SECOND,
    budgets: defined({
      createsPerHour: values.CREATES_PER_HOUR,
      createsPerDay: values.CREATES_PER_DAY,
      messagesPerHour: values.MESSAGES_PER_HOUR,
      messagesPerDay: values.MESSAGES_PER_DAY,
      projectBudgetsFile: values.PROJECT_BUDGETS_FILE,
    }),
    /** Set if `roles` has exports. */
    snapshots: snapshotsUrl ? { url: snapshotsUrl, forcePathStyle: values.S3_FORCE_PATH_STYLE } : undefined,
    exportRequestsPerHour: values.EXPORT_REQUESTS_PER_HOUR,
    /** Temporal was restored: a write that was asked for before this time asks a person before it is sent. */
    confirmWritesBefore: values.CONFIRM_WRITES_BEFORE,
    webhooks: readWebhooksConfig(env),
    /** Temporal's worker versioning, if it is on. */
    deployment: deployment === undefined ? undefined : { name: deployment, buildId },
    guardsStaleCopies: values.WORKER_STALE_COPY_GUARD === 'on',
    healthAddress: values.HEALTH_ADDRESS,
    metricsAddress: values.METRICS_ADDRESS,
    log: { level: values.LOG_LEVEL, format: values.LOG_FORMAT },
  };
}

/** Settings that others make necessary. Without a role a worker that has no store for snapshots serves jobs alone. */
function missingSettings(env: Record<string, string>, roles: readonly string[] | undefined): ConfigProblem[] {
  const problems = missingKeys(env);
  const wantsExports = (roles ?? env['WORKER_ROLES']?.split(/[\s,]+/))?.includes('exports');
  if (wantsExports && !env['SNAPSHOTS_URL']) {
    const problem = 'is missing; WORKER_ROLES names exports, so it should be file:///dir or s3://bucket/prefix';
    problems.push({ variable: 'SNAPSHOTS_URL', problem });
  }
  if (env['WORKER_BUILD_ID'] && !env['WORKER_DEPLOYMENT'])
    problems.push({ variable: 'WORKER_DEPLOYMENT', problem: 'is missing; WORKER_BUILD_ID is set, and goes with it' });
  return problems;
}

function missingKeys(env: Record<string, string>): ConfigProblem[] {
  if (env['ADMIN_API_KEY'] || env['ADMIN_API_KEY_FILE'] || env['PROJECT_KEYS_FILE']) return [];
  const problem = 'is missing; set it, or ADMIN_API_KEY_FILE to a file that holds the key, or PROJECT_KEYS_FILE';
  return [{ variable: 'ADMIN_API_KEY', problem }];
}

/** Temporal's settings alone, as their files are now; throws a ConfigError. */
export function readTemporalSettings(environment: Environment = process.env): TemporalSettings {
  return readTemporal(present(environment));
}

/** The upstream alone, for a check whether it answers; throws a ConfigError. */
export function readUpstreamConfig(environment: Environment = process.env): WorkerConfig['upstream'] {
  const env = present(environment);
  const { data, error } = upstreamSchema.safeParse(env);
  const problems = [...(error ? toProblems(error) : []), ...missingKeys(env)];
  if (!data || problems.length > 0) throw new ConfigError(problems);
  return toUpstream(data);
}

function toUpstream(values: z.output<typeof upstreamSchema>) {
  const { ADMIN_API_KEY: adminApiKey, ADMIN_API_KEY_FILE: adminApiKeyFile } = values;
  return {
    baseUrl: values.UPSTREAM_BASE_URL,
    keys: defined({
      // The file is the one that can be rotated.
      adminApiKey: adminApiKeyFile === undefined ? adminApiKey : undefined,
      adminApiKeyFile,
      projectKeysFile: values.PROJECT_KEYS_FILE,
    }),
    timeoutMs: values.UPSTREAM_TIMEOUT,
    notTakenStatuses: values.UPSTREAM_NOT_TAKEN_STATUSES,
    endStatuses: values.UPSTREAM_END_STATUSES,
    proxy: defined({
      httpsProxy: values.HTTPS_PROXY ?? undefined,
      httpProxy: values.HTTP_PROXY ?? undefined,
      noProxy: values.NO_PROXY,
    }),
    /** Names of the variables whose proxy can't be used. */
    unusableProxies: (['HTTPS_PROXY', 'HTTP_PROXY'] as const).filter((name) => values[name] === null),
  };
}

/** Without the fields that are undefined. */
function defined<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [Name in keyof T]?: Exclude<T[Name], undefined> };
}

/** Where the snapshots lie; throws a ConfigError if SNAPSHOTS_URL is missing or wrong. */
export function readSnapshotsConfig(environment: Environment = process.env): { url: string; forcePathStyle: boolean } {
  const schema = snapshotsSchema.extend({ SNAPSHOTS_URL: fields.snapshotsUrlField });
  const { SNAPSHOTS_URL: url, S3_FORCE_PATH_STYLE: forcePathStyle } = parse(schema, environment);
  return { url, forcePathStyle };
}

/**
 * The file of the webhooks' endpoints, which is read when it is needed, and how they are reached; undefined without
 * one. `problems` are those of the settings themselves: they hold no job up.
 */
export function readWebhooksConfig(environment: Environment = process.env) {
  const env = present(environment);
  const path = env['WEBHOOKS_FILE'];
  if (path === undefined) return undefined;
  const { data, error } = webhooksSchema.safeParse(env);
  return {
    path,
    allowPrivate: data?.WEBHOOKS_ALLOW_PRIVATE ?? false,
    proxy: data?.WEBHOOKS_PROXY,
    webUiUrl: data?.AGENT_JOBS_WEB_UI_URL,
    problems: error ? toProblems(error).map(({ variable, problem }) => `${variable} ${problem}`) : [],
  };
}

const httpSchema = z.object({
  HTTP_ADDRESS: fields.listenAddressField.default({ host: '127.0.0.1', port: 8080 }),
  HTTP_KEYS_FILE: fields.fileField('the keys of callers').optional(),
  HTTP_KEEP_ALIVE: fields.durationField('1 hour', '5 minutes').optional(),
  HTTP_PUBLIC_URL: fields.publicUrlField.optional(),
  HTTP_PAGE: fields.wordField('on', 'off').default('on'),
  MCP_ALLOWED_ORIGINS: fields.originsField.optional(),
  HTTP_CONNECTIONS_PER_ADDRESS: fields.countField.optional(),
  HEALTH_ADDRESS: fields.listenAddressField.optional(),
});

/** How `agent-jobs serve` listens, what it grants to connections, and where probes ask; throws a ConfigError. */
export function readHttpConfig(environment: Environment = process.env) {
  const values = parse(httpSchema, environment);
  const { HTTP_ADDRESS: address, HTTP_KEYS_FILE: keysFile } = values;
  const { HTTP_KEEP_ALIVE: keepAliveMs, HTTP_PUBLIC_URL: publicUrl, HEALTH_ADDRESS: healthAddress } = values;
  const { MCP_ALLOWED_ORIGINS: allowedOrigins, HTTP_CONNECTIONS_PER_ADDRESS: strangersPerAddress } = values;
  const listens = { address, healthAddress, keepAliveMs, strangersPerAddress };
  const config = { ...listens, keysFile, publicUrl, allowedOrigins, hasPage: values.HTTP_PAGE === 'on' };
  if (keysFile !== undefined || (isLoopback(address.host) && allowedOrigins === undefined)) return config;
  const problem = allowedOrigins
    ? 'is missing; MCP_ALLOWED_ORIGINS is for callers with keys'
    : 'is missing; without keys HTTP_ADDRESS should be of this machine alone, such as 127.0.0.1:8080';
  throw new ConfigError([{ variable: 'HTTP_KEYS_FILE', problem }]);
}

const mcpSchema = z.object({ MCP_MAX_WAIT: fields.durationField('1 hour', '5 minutes').optional() });

/** How long a tool of an agent may wait; undefined for its default. Throws a ConfigError. */
export function readMcpConfig(environment: Environment = process.env): { maxWaitMs: number | undefined } {
  return { maxWaitMs: parse(mcpSchema, environment).MCP_MAX_WAIT };
}

function parse<T>(schema: z.ZodType<T>, environment: Environment): T {
  const { data, error } = schema.safeParse(present(environment));
  if (error) throw new ConfigError(toProblems(error));
  return data;
}

function toProblems(error: z.ZodError): ConfigProblem[] {
  return error.issues.map(({ path, message }) => ({ variable: String(path[0]), problem: message }));
}
