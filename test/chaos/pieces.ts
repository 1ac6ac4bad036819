/**
 * A run of client writes in pieces, for machines and sessions that end before a million: one line of JSON a piece, and
 * their sum.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import type { ClientWritesReport } from './client-writes.js';

interface Piece extends ClientWritesReport {
  seed: number;
}

/** Pieces of a file, in the order in which they were run; none where it does not exist yet. */
export function readPieces(file: string): Piece[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line, revive) as Piece);
}

/** Adds a piece; a seed that is there already would count the same draws twice. */
export function addPiece(file: string, piece: Piece): void {
  appendFileSync(file, `${JSON.stringify(piece, flatten)}\n`);
}

/** The seed of the next piece: one after the last one's, or the given one where it is new. */
export function nextSeed(pieces: readonly Piece[], given: number | undefined): number {
  if (given !== undefined && pieces.some(({ seed }) => seed === given))
    throw new Error(`seed ${given} is among the pieces already: its faults would be drawn and counted twice`);
  return given ?? (pieces.at(-1)?.seed ?? 1_000) + 1;
}

/** All pieces as one report. */
export function sumOfPieces(pieces: readonly Piece[]): ClientWritesReport {
  return {
    writes: total(pieces.map(({ writes }) => writes)),
    repeated: merged(pieces.map(({ repeated }) => repeated)),
    inDoubt: merged(pieces.map(({ inDoubt }) => inDoubt)),
    rejected: total(pieces.map(({ rejected }) => rejected)),
    injectedFaults: merged(pieces.map(({ injectedFaults }) => injectedFaults)),
    doubled: pieces.flatMap(({ seed, doubled }) => doubled.map((prompt) => `seed ${seed}: ${prompt}`)),
    lost: pieces.flatMap(({ seed, lost }) => lost.map((prompt) => `seed ${seed}: ${prompt}`)),
    seconds: total(pieces.map(({ seconds }) => seconds)),
  };
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function merged(counts: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of counts.flatMap((each) => [...each])) sums.set(name, (sums.get(name) ?? 0) + count);
  return sums;
}

function flatten(_key: string, value: unknown): unknown {
  return value instanceof Map ? { counts: [...value] } : value;
}

function revive(_key: string, value: unknown): unknown {
  const counts = (value as { counts?: [string, number][] } | null)?.counts;
  return counts === undefined ? value : new Map(counts);
}
