/** Who a command is recorded for: `--by`, or else the user and the host. */
import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import type { Attribution } from '../contract.js';

export interface AttributionFlags {
  by?: string;
  note?: string;
}

/** Adds `--by` and `--note`. */
export function addAttributionOptions(command: Command): void {
  command
    .option('--by <name>', 'who decides, at most 200 bytes (default: the user and the host)')
    .option('--note <text>', 'why, at most 1,000 bytes');
}

/** Checks `--by` and `--note`; throws InvalidInputError. */
export async function readAttribution({ by, note }: AttributionFlags): Promise<{ by?: string; note?: string }> {
  const { parseAttribution } = await import('../agent-job/resolution.js');
  return parseAttribution({ by: by ?? (await userAtHost()), note } satisfies { [name in keyof Attribution]: unknown });
}

/** The user and the host as the system knows them, in the form of `by`. */
export async function userAtHost(readUser: () => { username: string } = userInfo): Promise<string> {
  const { LIMIT } = await import('../contract.js');
  const { cutToBytes } = await import('../contract/input-checks.js');
  const name = `${userName(readUser)}@${hostname()}`.replace(/\p{Cc}+/gu, ' ');
  return cutToBytes(name, LIMIT.decisionByBytes);
}

/** A container may run under a user id that has no name. */
function userName(readUser: () => { username: string }): string {
  try {
    return readUser().username;
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}`;
  }
}
