/** Stands in for a bug in workflow code: the task fails, not the workflow. */
export async function agentJob(): Promise<never> {
  throw new TypeError('broken on purpose');
}
