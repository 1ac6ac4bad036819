/** The only reader of the environment: validates every setting at once. */
import { z } from 'zod';
import {
  type ClientConfig,
  deepFreeze,
  type Environment,
  payloadKeysProblems,
  present,
  readTemporal,
  type TemporalSettings,
} from './config/client.js';
import { ConfigError, type ConfigProblem, isLoopback } from './config/config-error.js';
import * as field from './config/fields.js';
import { wholeNumberOr } from './config/fields.js';
import { DEFAULT_TASK_QUEUE } from './contract.js';
import { UNLIMITED, type WritesPerHour } from './contract/request-queue.js';
import { parseProjectBudgets } from './config/project-files.js';

export { hasTemporalProfile, processEnvironment, readClientConfig, type Environment } from './config/client.js';
export { openPayloadKeys, payloadKeysWarnings } from './config/client.js';
export type { PayloadKeys } from './config/payload-keys.js';
export { cannotListen, ConfigError, upstreamWarnings } from './config/config-error.js';
export type { ListenAddress, LogFormat, LogLevel, WorkerRole } from './config/fields.js';
export type { TemporalSettings } from './config/client.js';

const upstreamSchema = z.object({
  UPSTREAM_BASE_URL: field.baseUrlField,
  ADMIN_API_KEY: field.keyField.optional(),
  ADMIN_API_KEY_FILE: field.keyFileField.optional(),
  PROJECT_KEYS_FILE: field.projectKeysFileField.optional(),
  UPSTREAM_TIMEOUT: field.upstreamTimeoutField.default(20_000),
  UPSTREAM_NOT_TAKEN_STATUSES: field.statusListField.default([]),
  HTTPS_PROXY: field.proxyField.optional(),
  HTTP_PROXY: field.proxyField.optional(),
  NO_PROXY: field.noProxyField.optional(),
});

const snapshotsSchema = z.object({
  SNAPSHOTS_URL: field.snapshotsUrlField.optional(),
  S3_FORCE_PATH_STYLE: field.flagField.default(false),
});

const projectBudgetsFileField = z.string().transform((path, context): string => {
  try {
    parseProjectBudgets(field.readSettingsFile(path));
    return path;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    context.addIssue({
      code: 'custom',
      message: `${path}: ${code === undefined ? message : `it cannot be read (${code})`}`,
    });
    return z.NEVER;
  }
});

const writesPerHourField = wholeNumberOr(UNLIMITED);

const budgetsSchema = z.object({
  CREATES_PER_HOUR: writesPerHourField.optional(),
  MESSAGES_PER_HOUR: writesPerHourField.optional(),
  PROJECT_BUDGETS_FILE: projectBudgetsFileField.optional(),
});

const webhooksSchema = z.object({
  WEBHOOKS_FILE: z.string().optional(),
  WEBHOOKS_ALLOW_PRIVATE: field.flagField.default(false),
  WEBHOOKS_PROXY: field.webhooksProxyField.optional(),
  AGENT_JOBS_WEB_UI_URL: field.webUiField.optional(),
});

const workerSchema = z.object({
  AGENT_JOBS_TASK_QUEUE: field.taskQueueField.default(DEFAULT_TASK_QUEUE),
  ...upstreamSchema.shape,
  ...snapshotsSchema.shape,
  ...budgetsSchema.shape,
  WORKER_ROLES: field.rolesField.optional(),
  UPSTREAM_REQUESTS_PER_SECOND: field.positiveNumberField.optional(),
  EXPORT_REQUESTS_PER_HOUR: field.wholeNumberField.optional(),
  PAYLOAD_KEYS_FILE: z.string().optional(),
  CONFIRM_WRITES_BEFORE: field.timeField.optional(),
  WORKER_DEPLOYMENT: field.deploymentField.optional(),
  WORKER_BUILD_ID: field.buildIdField.optional(),
  HEALTH_ADDRESS: field.listenAddressField.optional(),
  METRICS_ADDRESS: field.listenAddressField.optional(),
  LOG_LEVEL: field.logLevelField.default('info'),
  LOG_FORMAT: field.logFormatField.default('json'),
});

/** Every variable of a worker, but Temporal's own. */
export const WORKER_VARIABLES: readonly string[] = [
  ...Object.keys(workerSchema.shape),
  ...Object.keys(webhooksSchema.shape),
];

/** How to reach the upstream, and with which keys. */
export interface UpstreamConfig {
  baseUrl: string;
  /** At least one is set; the file wins over `adminApiKey`. */
  keys: { adminApiKey?: string; adminApiKeyFile?: string; projectKeysFile?: string };
  /** For one exchange from connect to last byte. */
  timeoutMs: number;
  /** 5xx statuses that the operator vouches are answered before a write is taken. */
  notTakenStatuses: number[];
  proxy: { httpProxy?: string; httpsProxy?: string; noProxy?: string };
  /** Names of the variables whose proxy can't be used. */
  unusableProxies: readonly string[];
}

/** What the upstream takes from one project in any hour, over all workers; what is absent is not known. */
interface BudgetsConfig {
  createsPerHour?: WritesPerHour;
  messagesPerHour?: WritesPerHour;
  /** A file with budgets of single projects, which win. */
  projectBudgetsFile?: string;
}

/** The store of the snapshots. */
export interface SnapshotsConfig {
  /** `file:///dir` or `s3://bucket/prefix`, without a trailing slash. */
  url: string;
  forcePathStyle: boolean;
}

/** The file of the webhooks' endpoints, which is read when it is needed: a wrong one holds no job up. */
export interface WebhooksConfig {
  path: string;
  /** Whether `http` and addresses that are not public are taken. */
  allowPrivate: boolean;
  /** The proxy that they are sent through. */
  proxy: string | undefined;
  /** The address of Temporal's web UI, for links; undefined if it is not set. */
  webUiUrl: string | undefined;
  /** What is wrong with the settings themselves. */
  problems: readonly string[];
}

/** The settings of the production worker. */
export interface WorkerConfig extends Omit<ClientConfig, 'webUiUrl' | 'hidePrompts' | 'hasPayloadKeys'> {
  /** The keys that payloads are encrypted with; undefined where they are not. */
  payloadKeysFile: string | undefined;
  roles: readonly field.WorkerRole[];
  upstream: UpstreamConfig;
  /** Over all workers, where set. */
  upstreamRequestsPerSecond: number | undefined;
  budgets: BudgetsConfig;
  /** Set wherever `roles` has exports. */
  snapshots: SnapshotsConfig | undefined;
  /** The budget of all exports together, if set. */
  exportRequestsPerHour: number | undefined;
  /** ISO 8601 in UTC: Temporal was restored, and what was asked for before asks a person before it is sent. */
  confirmWritesBefore: string | undefined;
  /** The file of webhook endpoints; undefined without one. */
  webhooks: WebhooksConfig | undefined;
  /** Temporal's worker versioning, where it is on. */
  deployment: { name: string; buildId: string | undefined } | undefined;
  healthAddress: field.ListenAddress | undefined;
  metricsAddress: field.ListenAddress | undefined;
  log: { level: field.LogLevel; format: field.LogFormat };
}

/** All settings of the production worker; throws a ConfigError that names every wrong one. */
export function readWorkerConfig(environment: Environment = process.env): WorkerConfig {
  const env = present(environment);
  const { values, problems } = check(workerSchema, env);
  const temporal = readTemporal(env);
  problems.push(
    ...(Array.isArray(temporal) ? temporal : []),
    ...payloadKeysProblems(env),
    ...keyProblems(env),
    ...exportProblems(env, values?.WORKER_ROLES),
    ...deploymentProblems(env),
  );
  if (!values || Array.isArray(temporal) || problems.length > 0) throw new ConfigError(problems);
  const { WORKER_DEPLOYMENT: deployment, WORKER_BUILD_ID: buildId, SNAPSHOTS_URL: snapshotsUrl } = values;
  return deepFreeze({
    taskQueue: values.AGENT_JOBS_TASK_QUEUE,
    payloadKeysFile: values.PAYLOAD_KEYS_FILE,
    temporal,
    roles: values.WORKER_ROLES ?? (snapshotsUrl ? ['jobs', 'exports'] : ['jobs']),
    upstream: toUpstream(values),
    upstreamRequestsPerSecond: values.UPSTREAM_REQUESTS_PER_SECOND,
    budgets: defined({
      createsPerHour: values.CREATES_PER_HOUR,
      messagesPerHour: values.MESSAGES_PER_HOUR,
      projectBudgetsFile: values.PROJECT_BUDGETS_FILE,
    }),
    snapshots: snapshotsUrl ? { url: snapshotsUrl, forcePathStyle: values.S3_FORCE_PATH_STYLE } : undefined,
    exportRequestsPerHour: values.EXPORT_REQUESTS_PER_HOUR,
    confirmWritesBefore: values.CONFIRM_WRITES_BEFORE,
    webhooks: readWebhooksConfig(env),
    deployment: deployment === undefined ? undefined : { name: deployment, buildId },
    healthAddress: values.HEALTH_ADDRESS,
    metricsAddress: values.METRICS_ADDRESS,
    log: { level: values.LOG_LEVEL, format: values.LOG_FORMAT },
  });
}

/** Temporal's settings alone, as their files are now; throws a ConfigError. */
export function readTemporalSettings(environment: Environment = process.env): TemporalSettings {
  const temporal = readTemporal(present(environment));
  if (Array.isArray(temporal)) throw new ConfigError(temporal);
  return deepFreeze(temporal);
}

/** The upstream alone, for a check whether it answers; throws a ConfigError. */
export function readUpstreamConfig(environment: Environment = process.env): UpstreamConfig {
  const env = present(environment);
  const { values, problems } = check(upstreamSchema, env);
  problems.push(...keyProblems(env));
  if (!values || problems.length > 0) throw new ConfigError(problems);
  return deepFreeze(toUpstream(values));
}

/** The store of the snapshots; throws a ConfigError if SNAPSHOTS_URL is missing or wrong. */
export function readSnapshotsConfig(environment: Environment = process.env): SnapshotsConfig {
  const schema = snapshotsSchema.extend({ SNAPSHOTS_URL: field.snapshotsUrlField });
  const { SNAPSHOTS_URL: url, S3_FORCE_PATH_STYLE: forcePathStyle } = parse(schema, environment);
  return deepFreeze({ url, forcePathStyle });
}

const httpSchema = z.object({
  HTTP_ADDRESS: field.listenAddressField.default({ host: '127.0.0.1', port: 8080 }),
  HTTP_KEYS_FILE: field.callerKeysFileField.optional(),
  HTTP_KEEP_ALIVE: field.waitField.optional(),
  HEALTH_ADDRESS: field.listenAddressField.optional(),
});

interface HttpConfig {
  address: field.ListenAddress;
  /** Without one no caller needs a key. */
  keysFile: string | undefined;
  /** How long a connection may stay without a request. */
  keepAliveMs: number | undefined;
  /** A listener for probes alone. */
  healthAddress: field.ListenAddress | undefined;
}

/** How `agent-jobs serve` listens; throws a ConfigError. */
export function readHttpConfig(environment: Environment = process.env): HttpConfig {
  const values = parse(httpSchema, environment);
  const { HTTP_ADDRESS: address, HTTP_KEYS_FILE: keysFile } = values;
  const config = { address, keysFile, keepAliveMs: values.HTTP_KEEP_ALIVE, healthAddress: values.HEALTH_ADDRESS };
  if (keysFile !== undefined || isLoopback(address.host)) return config;
  const problem = 'is missing; without keys HTTP_ADDRESS should be of this machine alone, such as 127.0.0.1:8080';
  throw new ConfigError([{ variable: 'HTTP_KEYS_FILE', problem }]);
}

const mcpSchema = z.object({ MCP_MAX_WAIT: field.waitField.optional() });

/** How long a tool of an agent may wait; undefined for its default. Throws a ConfigError. */
export function readMcpConfig(environment: Environment = process.env): { maxWaitMs: number | undefined } {
  return { maxWaitMs: parse(mcpSchema, environment).MCP_MAX_WAIT };
}

function check<T>(
  schema: z.ZodType<T>,
  env: Record<string, string>,
): { values: T | undefined; problems: ConfigProblem[] } {
  const result = schema.safeParse(env);
  if (result.success) return { values: result.data, problems: [] };
  const problems = result.error.issues.map(({ path, message }) => ({ variable: String(path[0]), problem: message }));
  return { values: undefined, problems };
}

function parse<T>(schema: z.ZodType<T>, environment: Environment): T {
  const { values, problems } = check(schema, present(environment));
  if (!values) throw new ConfigError(problems);
  return values;
}

function keyProblems(env: Record<string, string>): ConfigProblem[] {
  if (env['ADMIN_API_KEY'] || env['ADMIN_API_KEY_FILE'] || env['PROJECT_KEYS_FILE']) return [];
  const problem = 'is missing; set it, or ADMIN_API_KEY_FILE to a file that holds the key, or PROJECT_KEYS_FILE';
  return [{ variable: 'ADMIN_API_KEY', problem }];
}

// Without an explicit role a worker that has no place for snapshots serves the jobs alone.
function exportProblems(env: Record<string, string>, roles: readonly string[] | undefined): ConfigProblem[] {
  const wantsExports = (roles ?? env['WORKER_ROLES']?.split(/[\s,]+/))?.includes('exports');
  if (!wantsExports || env['SNAPSHOTS_URL']) return [];
  const problem = 'is missing; WORKER_ROLES names exports, so it should be file:///dir or s3://bucket/prefix';
  return [{ variable: 'SNAPSHOTS_URL', problem }];
}

function deploymentProblems(env: Record<string, string>): ConfigProblem[] {
  if (!env['WORKER_BUILD_ID'] || env['WORKER_DEPLOYMENT']) return [];
  return [{ variable: 'WORKER_DEPLOYMENT', problem: 'is missing; WORKER_BUILD_ID is set, and goes with it' }];
}

function toUpstream(values: z.output<typeof upstreamSchema>): UpstreamConfig {
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
    proxy: defined({
      httpsProxy: values.HTTPS_PROXY ?? undefined,
      httpProxy: values.HTTP_PROXY ?? undefined,
      noProxy: values.NO_PROXY,
    }),
    unusableProxies: (['HTTPS_PROXY', 'HTTP_PROXY'] as const).filter((name) => values[name] === null),
  };
}

/** Without the fields that are undefined. */
function defined<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [Name in keyof T]?: Exclude<T[Name], undefined> };
}

/** The file of webhook endpoints; undefined without one. A wrong setting holds no job up. */
export function readWebhooksConfig(environment: Environment = process.env): WebhooksConfig | undefined {
  const env = present(environment);
  const path = env['WEBHOOKS_FILE'];
  if (path === undefined) return undefined;
  const { values, problems } = check(webhooksSchema, env);
  return {
    path,
    allowPrivate: values?.WEBHOOKS_ALLOW_PRIVATE ?? false,
    proxy: values?.WEBHOOKS_PROXY,
    webUiUrl: values?.AGENT_JOBS_WEB_UI_URL,
    problems: problems.map(({ variable, problem }) => `${variable} ${problem}`),
  };
}
