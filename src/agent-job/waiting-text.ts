/** What a job waits for, in words for people: the web UI and the command line say the same. Pure. */
import type { Waiting } from '../contract.js';

/** The waits that may last until a person acts, or longer than expected; the others are a job's normal life. */
const LASTING_WAITS: Partial<Record<Waiting['for'], string>> = {
  turn: 'its turn to send',
  rateLimit: 'the upstream’s rate limit',
  upstream: 'the upstream, which is tried again and again',
  key: 'its key',
  person: 'a person',
};

const KEY_SETTINGS = 'ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE';

/** What it waits for, as the end of a sentence; undefined where the wait is a job's normal life. */
export function lastingWait({ for: what }: Waiting): string | undefined {
  return LASTING_WAITS[what];
}

/** What a person may do about the wait; undefined if the wait is a job's normal life. */
export function waitRemedy({ for: what, position }: Waiting, projectId: string): string | undefined {
  switch (what) {
    case 'turn':
    case 'rateLimit':
      return position === undefined
        ? 'it goes on by itself'
        : `it goes on by itself; "npx agent-jobs queue --project ${shellWord(projectId)}" shows who is next`;
    case 'upstream':
      return 'check UPSTREAM_BASE_URL of the worker where it should answer';
    case 'key':
      return `give the worker a key that the upstream takes (${KEY_SETTINGS})`;
    case 'person':
      return '"npx agent-jobs attention" shows what can be done';
    default:
      return undefined;
  }
}

/** Since when it waits, at which place, and until when; `time` formats an ISO time. */
export function waitTimes({ for: what, since, until, position }: Waiting, time = (iso: string) => iso): string {
  const place = position === undefined ? '' : `, position ${position}`;
  // The upstream decides on a turn: what is expected is no promise.
  const end = until === undefined ? '' : `, ${what === 'turn' ? 'expected' : 'until'} ${time(until)}`;
  return `since ${time(since)}${place}${end}`;
}

/** A word as a POSIX shell reads it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
