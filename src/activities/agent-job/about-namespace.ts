/**
 * What a worker knows of its namespace and a workflow must not guess: it sets a later search attribute only once a
 * result has said that the namespace knows it. So jobs go on where `agent-jobs setup` was not run again, and replay as
 * they ran.
 */

/** Part of an activity's result. */
export interface AboutNamespace {
  /** The later search attributes that the namespace knows; absent where it knows none, or the worker did not look. */
  attributes?: readonly string[];
}

/** Makes activities tell it with their results. */
export function tellingOfNamespace(knownAttributes: () => readonly string[]) {
  return <I, R extends object>(activity: (input: I) => Promise<R>): ((input: I) => Promise<R & AboutNamespace>) =>
    async (input) => {
      const result = await activity(input);
      const attributes = knownAttributes();
      return attributes.length === 0 ? result : { ...result, attributes };
    };
}
