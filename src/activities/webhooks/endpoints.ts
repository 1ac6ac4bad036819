/**
 * The endpoints of WEBHOOKS_FILE, by project. No error holds a secret or a URL. post.ts decides whether an address is
 * public, where the connection is made.
 */
import { z } from 'zod';
import { WEBHOOK_EVENTS, type WebhookEventType } from '../../contract/webhooks.js';
import { createHash } from 'node:crypto';
import { parseJson, SettingsFile } from '../../config/settings-file.js';
import type { Way } from './post.js';

interface Endpoint {
  /** A hash of the URL: ids and histories must not hold what is secret in it. */
  readonly id: string;
  readonly url: URL;
  /** Each signs every request, so that a receiver can change from one to the next. */
  readonly secrets: readonly Buffer[];
  readonly events: readonly WebhookEventType[];
}

/** The key of the endpoints that get the events of all projects. */
const ALL_PROJECTS = '*';
const ID_DIGITS = 16;
const SECRET_BYTES = { min: 24, max: 64 };
const MAX_SECRETS = 5;

const secretField = z.string().transform((text, context): Buffer => {
  const [, base64 = ''] = /^whsec_([\d+/A-Za-z]+={0,2})$/.exec(text) ?? [];
  const secret = Buffer.from(base64, 'base64');
  const isWhole = secret.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
  if (isWhole && secret.length >= SECRET_BYTES.min && secret.length <= SECRET_BYTES.max) return secret;
  context.addIssue({ code: 'custom', message: 'should be whsec_ and the base64 of 24 to 64 bytes' });
  return z.NEVER;
});

function urlField(allowsHttp: boolean) {
  const scheme = allowsHttp ? 'http or https' : 'https';
  const more = allowsHttp ? '' : '; http goes with WEBHOOKS_ALLOW_PRIVATE=true';
  const message = `should be an ${scheme} address without user, password and fragment${more}`;
  return z.string().transform((text, context): URL => {
    const url = URL.canParse(text) ? new URL(text) : null;
    const isAllowed = url?.protocol === 'https:' || (allowsHttp && url?.protocol === 'http:');
    if (url && isAllowed && !url.username && !url.password && !url.hash) return url;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });
}

type EndpointsOf = ReadonlyMap<string, readonly Endpoint[]>;

/** Throws an Error that names the wrong place of the file. */
function parseEndpoints(text: string, allowsHttp: boolean): EndpointsOf {
  const endpoint = z.strictObject({
    url: urlField(allowsHttp),
    secrets: z.array(secretField).min(1).max(MAX_SECRETS),
    events: z
      .array(z.enum(WEBHOOK_EVENTS))
      .min(1)
      .default([...WEBHOOK_EVENTS]),
  });
  const { data, error } = z.record(z.string(), z.array(endpoint)).safeParse(parseJson(text));
  if (error) throw new Error(problemOf(error.issues[0]!));
  const withId = (one: z.output<typeof endpoint>) => {
    return { id: createHash('sha256').update(one.url.href).digest('hex').slice(0, ID_DIGITS), ...one };
  };
  return new Map(Object.entries(data).map(([projectId, endpoints]) => [projectId, endpoints.map(withId)]));
}

/** The project, the endpoint by its number, and the field. */
function problemOf({ path: [project, endpoint, ...field], message, code }: z.core.$ZodIssue): string {
  const problem = code === 'unrecognized_keys' ? 'has a field that is none of url, secrets, events' : message;
  if (project === undefined) return problem;
  // A secret or an address may stand in the wrong place.
  const isPlain = /^(?!whsec_)[\w.*-]{1,64}$/.test(String(project));
  const place = [isPlain ? `project ${JSON.stringify(project)}` : 'a project'];
  if (endpoint !== undefined) place.push(`endpoint ${Number(endpoint) + 1}`);
  if (field.length > 0) place.push(field.join('.'));
  return `${place.join(', ')}: ${problem}`;
}

interface EndpointsOptions extends Way {
  path: string;
  /** What is wrong with other settings of webhooks. While there is anything, no endpoint is read. */
  problems?: readonly string[];
  onProblem?: (problem: string | null) => void;
}

/** The endpoints of a file, which is read again when it changes. While it is wrong, its last good content holds. */
export class Endpoints {
  readonly way: Way;
  readonly #file: SettingsFile<EndpointsOf>;
  readonly #problems: readonly string[];

  constructor({ path, allowPrivate, proxy, problems = [], onProblem = () => {} }: EndpointsOptions) {
    this.#problems = problems;
    this.way = { allowPrivate, proxy };
    const parse = (text: string) => parseEndpoints(text, allowPrivate);
    this.#file = new SettingsFile({ name: 'WEBHOOKS_FILE', path, parse, onProblem });
  }

  /** Those of all projects. Throws if the file never had a good content. */
  async all(): Promise<Endpoint[]> {
    return [...(await this.#read()).values()].flat();
  }

  /** Those that get the events of a project. A job whose id names no project has those of `*` alone. */
  async of(projectId: string | null): Promise<Endpoint[]> {
    const file = await this.#read();
    return [...((projectId !== null && file.get(projectId)) || []), ...(file.get(ALL_PROJECTS) ?? [])];
  }

  /** Events wait while a setting is wrong: without its proxy a request would take a way that is not allowed. */
  async #read(): Promise<EndpointsOf> {
    if (this.#problems.length > 0) throw new Error(this.#problems.join('; '));
    return this.#file.read();
  }
}
