import { hashText, seededRandom } from '../../src/sandbox/random.js';

/** Seeded choices: the same seed and name draw the same ones, whatever else is drawn elsewhere. */
export class Draw {
  readonly #random: () => number;

  constructor(seed: number, name: string) {
    this.#random = seededRandom(seed ^ hashText(name));
  }

  chance(probability: number): boolean {
    return this.#random() < probability;
  }

  /** A whole number from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.#random() * (max - min + 1));
  }

  pick<T>(items: readonly T[]): T {
    return items[this.between(0, items.length - 1)] as T;
  }

  shuffled<T>(items: readonly T[]): T[] {
    return items
      .map((item) => ({ item, at: this.#random() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }
}
