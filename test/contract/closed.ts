/** A schema, or a tree of schemas, whose objects take no fields but those that they list. */
export function closed<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(closed) as T;
  if (typeof schema !== 'object' || schema === null) return schema;
  const inner = Object.fromEntries(Object.entries(schema).map(([keyword, value]) => [keyword, closed<unknown>(value)]));
  const isOfFields = 'properties' in schema && 'type' in schema;
  return { ...inner, ...(isOfFields && { additionalProperties: false }) } as T;
}
