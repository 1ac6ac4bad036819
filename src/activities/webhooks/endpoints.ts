/**
 * Who is told of what: the endpoints of WEBHOOKS_FILE, by project. No secret and no URL is told in an error. Whether an
 * address is public is decided in post.ts, where the connection is made.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { WEBHOOK_EVENTS, type WebhookEventType } from '../../contract/webhooks.js';
import { checkId } from '../../contract/input-checks.js';
import { SettingsFile } from '../../upstream/reloading-file.js';
import type { Way } from './post.js';

/** Whoever is told of a project's events. */
interface Endpoint {
  /** A hash of the URL, so that ids and histories do not hold what is secret of it. */
  readonly id: string;
  readonly url: URL;
  /** Each signs every request, so that a receiver can go over from one to the next. */
  readonly secrets: readonly Buffer[];
  readonly events: readonly WebhookEventType[];
}

/** Projects in a file that are told to all endpoints of it. */
const ALL_PROJECTS = '*';
const ID_DIGITS = 16;
const SECRET = /^whsec_([\d+/A-Za-z]+={0,2})$/;
const SECRET_BYTES = { min: 24, max: 64 };
const MOST_SECRETS = 5;

const secretField = z.string().transform((text, context): Buffer => {
  const [, base64 = ''] = SECRET.exec(text) ?? [];
  const secret = Buffer.from(base64, 'base64');
  const isWhole = secret.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
  if (isWhole && secret.length >= SECRET_BYTES.min && secret.length <= SECRET_BYTES.max) return secret;
  context.addIssue({ code: 'custom', message: 'should be whsec_ and the base64 of 24 to 64 bytes' });
  return z.NEVER;
});

function urlField(allowsHttp: boolean) {
  const scheme = allowsHttp ? 'http or https' : 'https';
  const more = allowsHttp ? '' : '; http goes with WEBHOOKS_ALLOW_PRIVATE=true';
  const shouldBe = `should be an ${scheme} address without user, password and fragment${more}`;
  return z.string().transform((text, context): URL => {
    const url = URL.canParse(text) ? new URL(text) : null;
    const isAllowed = url?.protocol === 'https:' || (allowsHttp && url?.protocol === 'http:');
    if (url && isAllowed && !url.username && !url.password && !url.hash) return url;
    context.addIssue({ code: 'custom', message: shouldBe });
    return z.NEVER;
  });
}

function fileSchema(allowsHttp: boolean) {
  const endpoint = z.strictObject({
    url: urlField(allowsHttp),
    secrets: z.array(secretField).min(1).max(MOST_SECRETS),
    events: z
      .array(z.enum(WEBHOOK_EVENTS))
      .min(1)
      .default([...WEBHOOK_EVENTS]),
  });
  return z.record(z.string(), z.array(endpoint));
}

type EndpointsOf = ReadonlyMap<string, readonly Endpoint[]>;

/** Throws an Error that names the place and quotes nothing. */
function parseEndpoints(text: string, allowsHttp: boolean): EndpointsOf {
  const content = parseJson(text);
  const { data, error } = fileSchema(allowsHttp).safeParse(content);
  if (error) {
    const [{ path, message, code }] = error.issues as [z.core.$ZodIssue];
    const problem = code === 'unrecognized_keys' ? 'has a field that is none of url, secrets, events' : message;
    throw new Error(path.length === 0 ? problem : `${placeOf(content as object, path)}: ${problem}`);
  }
  return new Map(
    Object.entries(data).map(([projectId, endpoints]) => [
      projectId,
      endpoints.map((endpoint) => ({ id: idOf(endpoint.url), ...endpoint })),
    ]),
  );
}

/** A project, an endpoint of it by number and origin, and the field. */
function placeOf(content: object, [project, endpoint, ...field]: readonly PropertyKey[]): string {
  const at = [projectIn(content, String(project))];
  if (endpoint !== undefined) {
    const { [String(project)]: endpoints } = content as Record<string, { url?: unknown }[]>;
    const url = String(endpoints?.[Number(endpoint)]?.url);
    at.push(`endpoint ${Number(endpoint) + 1}${URL.canParse(url) ? ` (${new URL(url).origin})` : ''}`);
  }
  return [...at, ...(field.length === 0 ? [] : [field.join('.')])].join(', ');
}

/** By its id, but for one that may be a secret or an address in the wrong place. */
function projectIn(content: object, projectId: string): string {
  try {
    if (!/whsec_|:\/\//i.test(checkId(projectId, 'id'))) return `project ${JSON.stringify(projectId)}`;
  } catch {
    // No id of a project.
  }
  return `project ${Object.keys(content).indexOf(projectId) + 1}`;
}

/** The parser's own message quotes the file. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('it is not valid JSON');
  }
}

/** The same for each spelling of an address (RFC 3986, 6.2.2). */
function idOf({ protocol, host, pathname, search }: URL): string {
  const path = (pathname + search).replace(/%[\da-f]{2}/gi, (escaped) => {
    const character = String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
    return /[\w.~-]/.test(character) ? character : escaped.toUpperCase();
  });
  const href = `${protocol}//${host.replace(/\.(?=:|$)/, '')}${path}`;
  return createHash('sha256').update(href).digest('hex').slice(0, ID_DIGITS);
}

/** An address that is named twice is told what both are told, and each secret signs. */
function together(first: Endpoint | undefined, second: Endpoint): Endpoint {
  if (first === undefined) return second;
  const secrets = new Map([...first.secrets, ...second.secrets].map((secret) => [secret.toString('hex'), secret]));
  return { ...first, events: [...first.events, ...second.events], secrets: [...secrets.values()] };
}

interface EndpointsOptions extends Way {
  path: string;
  /** What is wrong with the settings beside the file. While there is anything, no endpoint is read. */
  problems?: readonly string[];
  onProblem?: (problem: string | null) => void;
}

/** The endpoints of a file, which is read again when it changes; while it is wrong, its last good content holds. */
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

  /** Those of all projects; throws where there never was a good content. */
  async all(): Promise<Endpoint[]> {
    return distinct([...(await this.#read()).values()].flat());
  }

  /** Those of a project, and of all projects; a job whose id tells no project has the latter alone. */
  async of(projectId: string | null): Promise<Endpoint[]> {
    const file = await this.#read();
    return distinct([...(file.get(ALL_PROJECTS) ?? []), ...(projectId === null ? [] : (file.get(projectId) ?? []))]);
  }

  /** Events wait for settings that are right: without its proxy a post would take a way that none allowed. */
  async #read(): Promise<EndpointsOf> {
    if (this.#problems.length > 0) throw new Error(this.#problems.join('; '));
    return this.#file.read();
  }
}

function distinct(endpoints: readonly Endpoint[]): Endpoint[] {
  const byId = new Map<string, Endpoint>();
  for (const endpoint of endpoints) byId.set(endpoint.id, together(byId.get(endpoint.id), endpoint));
  return [...byId.values()];
}
