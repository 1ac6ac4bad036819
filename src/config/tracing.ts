/**
 * Whether traces are on, by the standard variables of OpenTelemetry: off unless one says where to send them. What has
 * no effect here but on OpenTelemetry's own SDK, such as its limits, the SDK reads itself.
 */
import { readTraceContext, type TraceContext } from '../contract/trace-context.js';
import { parseUrl, present, type Environment } from './client.js';
import { ConfigError, type ConfigProblem } from './config-error.js';

/** How spans are sent: each other protocol would need a library of its own. */
const PROTOCOL = 'http/protobuf';
const SAMPLERS: readonly string[] = ['always_on', 'always_off', 'traceidratio'].flatMap((name) => [
  name,
  `parentbased_${name}`,
]);

/** The variables that operators set most; a deployment hands them on. */
export const TRACING_VARIABLES = [
  'OTEL_SDK_DISABLED',
  'OTEL_TRACES_EXPORTER',
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
  'OTEL_EXPORTER_OTLP_PROTOCOL',
  'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_SERVICE_NAME',
  'OTEL_RESOURCE_ATTRIBUTES',
  'OTEL_TRACES_SAMPLER',
  'OTEL_TRACES_SAMPLER_ARG',
] as const;

type Settings = Partial<Record<(typeof TRACING_VARIABLES)[number], string>>;

/** Whether traces are on; throws a ConfigError that names each wrong setting. */
export function readTracing(environment: Environment = process.env): boolean {
  const env = present(environment);
  const problems = tracingProblems(env);
  if (problems.length > 0) throw new ConfigError(problems);
  return isTracingOn(env);
}

/** The trace that whatever ran this process is in, as OpenTelemetry hands it on to processes; null where it is none. */
export function readParentTrace(environment: Environment = process.env): TraceContext | null {
  const { TRACEPARENT: traceparent, TRACESTATE: tracestate } = environment;
  return readTraceContext({ traceparent, tracestate });
}

/** What is wrong with the settings of traces, where they are on. */
export function tracingProblems(env: Settings): ConfigProblem[] {
  if (isDisabled(env)) return [];
  const exporter = env.OTEL_TRACES_EXPORTER ?? 'otlp';
  if (!['otlp', 'none'].includes(exporter)) return [wrong('OTEL_TRACES_EXPORTER', 'otlp or none')];
  return isTracingOn(env) ? [...endpointProblems(env), ...protocolProblems(env), ...samplerProblems(env)] : [];
}

function isDisabled({ OTEL_SDK_DISABLED: text = '' }: Settings): boolean {
  return text.toLowerCase() === 'true';
}

/** The same without a check. */
export function isTracingOn(env: Settings): boolean {
  if (isDisabled(env) || env.OTEL_TRACES_EXPORTER === 'none') return false;
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? env.OTEL_EXPORTER_OTLP_ENDPOINT;
  return endpoint !== undefined || env.OTEL_TRACES_EXPORTER !== undefined;
}

function endpointProblems(env: Settings): ConfigProblem[] {
  const names = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] as const;
  return names
    .filter((name) => env[name] !== undefined && !parseUrl(env[name], ['http:', 'https:']))
    .map((name) => wrong(name, 'the http or https address of a collector, for example http://localhost:4318'));
}

function protocolProblems(env: Settings): ConfigProblem[] {
  const names = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'] as const;
  const variable = names.find((name) => env[name] !== undefined);
  return variable === undefined || env[variable] === PROTOCOL ? [] : [wrong(variable, PROTOCOL)];
}

function samplerProblems({ OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: text }: Settings): ConfigProblem[] {
  if (sampler === undefined) return [];
  if (!SAMPLERS.includes(sampler)) return [wrong('OTEL_TRACES_SAMPLER', `one of ${SAMPLERS.join(', ')}`)];
  if (!sampler.endsWith('traceidratio') || text === undefined) return [];
  const ratio = Number(text);
  return ratio >= 0 && ratio <= 1 ? [] : [wrong('OTEL_TRACES_SAMPLER_ARG', 'a number from 0 to 1')];
}

function wrong(variable: string, shouldBe: string): ConfigProblem {
  return { variable, problem: `should be ${shouldBe}` };
}
