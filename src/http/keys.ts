/** Who may call: the keys of HTTP_KEYS_FILE, by their hashes, and what each may see. No key is kept or told. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { LIMIT } from '../contract.js';
import { cutToBytes } from '../contract/input-checks.js';
import { ReloadingFile } from '../upstream/reloading-file.js';
import { Problem } from './problem.js';

/** Whoever sent a request. */
export interface Caller {
  /** Null where nobody needs a key. */
  readonly name: string | null;
  readonly projects: readonly string[] | '*';
}

/** Where no keys are set. */
export const ANYBODY: Caller = { name: null, projects: '*' };

/** Throws a problem 403 where a caller may not see a project; a job whose id tells none is for who may see all. */
export function checkMaySee({ projects }: Caller, projectId: string | null): void {
  if (projects === '*' || (projectId !== null && projects.includes(projectId))) return;
  throw new Problem(403, 'this key is not for this project');
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
  }),
);

function parseKeys(text: string): ReadonlyMap<string, Caller> {
  const keys = keysFile.parse(JSON.parse(text));
  return new Map(Object.entries(keys).map(([hash, caller]) => [hash.toLowerCase(), caller]));
}

/** The keys of a file, which is read again when it changes; while it is wrong, its last good content holds. */
export class CallerKeys {
  readonly #path: string;
  readonly #file: ReloadingFile<ReadonlyMap<string, Caller>>;
  readonly #onProblem: (problem: string) => void;
  #keys: ReadonlyMap<string, Caller> | null = null;
  #problem: string | null = null;

  constructor(path: string, onProblem: (problem: string) => void, checkEveryMs?: number) {
    this.#path = path;
    this.#file = new ReloadingFile(path, parseKeys, checkEveryMs);
    this.#onProblem = onProblem;
  }

  /** Reads them; throws where there never was a good content. */
  async read(): Promise<ReadonlyMap<string, Caller>> {
    try {
      this.#keys = await this.#file.read();
      this.#problem = null;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The parser's own message would quote the file, where a key may stand in place of its hash.
      const wrong = 'should be a JSON object of the SHA-256 of a key, in hex, to {name, projects}';
      const problem = `HTTP_KEYS_FILE ${this.#path} ${code ? `cannot be read (${code})` : wrong}`;
      if (this.#keys === null) throw new Error(problem);
      if (problem !== this.#problem) this.#onProblem(`${problem}; its last good content holds`);
      this.#problem = problem;
    }
    return this.#keys;
  }

  /** Throws a problem 401. */
  async callerOf(authorization: string | undefined): Promise<Caller> {
    const [, key] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization ?? '') ?? [];
    const hash = key === undefined ? '' : createHash('sha256').update(key).digest('hex');
    const caller = (await this.read()).get(hash);
    if (caller) return caller;
    const detail = key === undefined ? 'send "Authorization: Bearer" and a key' : 'nobody has this key';
    throw new Problem(401, detail, { headers: { 'www-authenticate': 'Bearer' } });
  }
}
