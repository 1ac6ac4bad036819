/** Who may call: the keys of HTTP_KEYS_FILE, by their hashes, and what each may see. No key is kept or shown. */
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import { LIMIT } from '../contract.js';
import { cutToBytes } from '../contract/shared.js';
import { SettingsFile } from '../config/settings-file.js';
import { Problem } from './problem.js';

/** The sender of a request. */
export interface Caller {
  /** The hash of the key, by which callers differ: two keys may have one name. Null without keys. */
  readonly id: string | null;
  /** Null without keys. */
  readonly name: string | null;
  readonly projects: readonly string[] | '*';
  readonly access: 'read' | 'write';
}

/** Every caller, if no keys are set. */
export const ANYBODY: Caller = { id: null, name: null, projects: '*', access: 'write' };

/** Throws a problem 403 if a caller may not see a project; a job whose id names none is for callers that see all. */
export function checkMaySee({ projects }: Caller, projectId: string | null): void {
  if (projects === '*' || (projectId !== null && projects.includes(projectId))) return;
  throw new Problem(403, 'this key is not for this project');
}

/** Throws a problem 403 for a write of a caller that may only read. `Allow` tells the page to hide its buttons. */
export function checkMayWrite({ access }: Caller, { method, response }: { method: string; response: ServerResponse }) {
  if (access === 'write') return;
  response.setHeader('allow', 'GET, HEAD');
  if (method !== 'GET') throw new Problem(403, 'this key may only read', { code: 'READ_ONLY_KEY' });
}

const keysFile = z.record(
  z.string().regex(/^[\da-f]{64}$/i),
  z.strictObject({
    // Cut to what Temporal's history takes as who asked.
    name: z
      .string()
      .regex(/^\P{Cc}+$/u)
      .transform((name) => cutToBytes(name, LIMIT.decisionByBytes)),
    projects: z.union([z.literal('*'), z.array(z.string())]),
    access: z.enum(['read', 'write']).default('write'),
  }),
);

function parseKeys(text: string): ReadonlyMap<string, Caller> {
  let keys: z.output<typeof keysFile>;
  try {
    keys = keysFile.parse(JSON.parse(text));
  } catch {
    // The parser's own message would quote the file, in which a key may stand in place of its hash.
    throw new Error('it should be a JSON object of the SHA-256 of a key, in hex, to {name, projects, access?}');
  }
  return new Map(Object.entries(keys).map(([hash, caller]) => [hash.toLowerCase(), { id: hash, ...caller }]));
}

/** The keys of a file, which is read again when it changes; while it is wrong, its last good content holds. */
export class CallerKeys {
  readonly #file: SettingsFile<ReadonlyMap<string, Caller>>;

  constructor(path: string, onProblem: (problem: string) => void, checkEveryMs?: number) {
    const report = (problem: string | null) => problem !== null && onProblem(problem);
    this.#file = new SettingsFile({ name: 'HTTP_KEYS_FILE', path, parse: parseKeys, onProblem: report, checkEveryMs });
  }

  /** Reads them; throws if there never was a good content. */
  read(): Promise<ReadonlyMap<string, Caller>> {
    return this.#file.read();
  }

  /** Throws a problem 401. */
  async callerOf(authorization: string | undefined): Promise<Caller> {
    const [, key] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization ?? '') ?? [];
    const hash = key === undefined ? '' : createHash('sha256').update(key).digest('hex');
    const caller = (await this.read()).get(hash);
    if (caller) return caller;
    const detail = key === undefined ? 'send "Authorization: Bearer" and a key' : 'this key is unknown';
    throw new Problem(401, detail, { headers: { 'www-authenticate': 'Bearer' } });
  }
}
