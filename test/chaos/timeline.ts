/** What was done to the processes of a run, and when. */
export interface Moment {
  at: string;
  what: string;
}

export class Timeline {
  readonly moments: Moment[] = [];
  #strikes = 0;

  note(what: string): void {
    this.moments.push({ at: new Date().toISOString(), what });
  }

  /** Takes in strikes from within, all that there were so far; their time is that of the look. */
  noteStrikes(strikes: readonly string[]): void {
    for (const strike of strikes.slice(this.#strikes)) this.note(`worker struck from within: ${strike}`);
    this.#strikes = strikes.length;
  }

  /** The last moments before a time, each with how many seconds before. */
  before(time: string, most = 5): string[] {
    return this.moments
      .filter(({ at }) => at <= time)
      .slice(-most)
      .map(({ at, what }) => `${((Date.parse(time) - Date.parse(at)) / 1_000).toFixed(1)} s before: ${what}`);
  }
}
