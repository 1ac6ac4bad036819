/** One setting that is missing or wrong; `problem` never holds its value. */
export interface ConfigProblem {
  variable: string;
  problem: string;
}

/** All settings that are missing or wrong, in one readable message. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const width = Math.max(...problems.map(({ variable }) => variable.length));
    const lines = problems.map(({ variable, problem }) => `  ${variable.padEnd(width)}  ${problem}`);
    const title = problems.length === 1 ? '1 setting is wrong:' : `${problems.length} settings are wrong:`;
    super([title, ...lines].join('\n'));
    this.problems = problems;
  }
}
