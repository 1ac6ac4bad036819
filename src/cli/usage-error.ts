/** A wrong value: the command's usage is shown and the exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
