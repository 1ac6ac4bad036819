/**
 * Turns types of the contract into JSON Schema, with their TSDoc as descriptions. The compiler holds what the workflows
 * answer against these types.
 */
import { API, SymbolFlags, TypeFlags, type Checker, type Symbol, type Type } from 'typescript/unstable/sync';
import { nullable, type JsonSchema } from '../../src/contract/kinds.js';

/** What a signal, an update or a query takes and answers; null if it is nothing. */
export interface MessageTypes {
  readonly argument: JsonSchema | null;
  readonly isArgumentOptional: boolean;
  readonly answer: JsonSchema | null;
}

/** Reads the types that `src/contract.ts` of a source tree exports. */
export class TypeSchemas {
  readonly #api: API;
  readonly #checker: Checker;
  readonly #exports: ReadonlyMap<string, Symbol>;
  /** Named types that schemas refer to, and that still need a definition. */
  readonly #wanted = new Map<string, Type>();

  constructor(root: string) {
    this.#api = new API({ cwd: root });
    const snapshot = this.#api.updateSnapshot({ openProjects: [`${root}tsconfig.build.json`] });
    const { program, checker } = snapshot.getProjects()[0]!;
    this.#checker = checker;
    const module = checker.getSymbolAtLocation(program.getSourceFile(`${root}src/contract.ts`)!)!;
    this.#exports = new Map(checker.getExportsOfModule(module).map((symbol) => [symbol.name, symbol]));
  }

  close(): void {
    this.#api.close();
  }

  /** The exported names. */
  names(): string[] {
    return [...this.#exports.keys()];
  }

  /** The schemas of exported types, and of every named type that these refer to. */
  definitions(names: readonly string[]): Record<string, JsonSchema> {
    for (const name of names) this.#wanted.set(name, this.#declared(name));
    const definitions: Record<string, JsonSchema> = {};
    // A definition may want more, which the map then goes on with.
    for (const [name, type] of this.#wanted) {
      definitions[name] = { ...this.#description(this.#symbol(name)), ...this.#expand(type) };
    }
    return definitions;
  }

  /** What a definition of a message, such as `followUpSignal`, takes and answers. */
  message(name: string): MessageTypes {
    const type = this.#checker.getTypeOfSymbol(this.#symbol(name))!;
    const given = type.isTypeReference() ? this.#checker.getTypeArguments(type) : [];
    const isSignal = type.getSymbol()?.name === 'SignalDefinition';
    const [args, answer] = isSignal ? [given[0]] : [given[1], given[0]];
    const [argument] = args?.isTypeReference() ? this.#checker.getTypeArguments(args) : [];
    return {
      argument: argument ? this.#reference(argument) : null,
      isArgumentOptional: args !== undefined && this.#checker.typeToString(args).endsWith('?]'),
      answer: answer ? this.#reference(answer) : null,
    };
  }

  /** A schema with the TSDoc of a type's properties, wherever it says nothing itself. */
  withDescriptions(schema: JsonSchema, name: string): JsonSchema {
    return { ...this.#description(this.#symbol(name)), ...this.#describeFields(schema, this.#declared(name)) };
  }

  #describeFields(schema: JsonSchema, type: Type): JsonSchema {
    const { oneOf } = schema as { oneOf?: readonly JsonSchema[] };
    if (oneOf) return { ...schema, oneOf: oneOf.map((form) => this.#describeFields(form, type)) };
    const properties = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>);
    if (properties.length === 0) return schema;
    const described = properties.map(([field, value]): [string, JsonSchema] => {
      const property = this.#checker.getPropertyOfType(type, field);
      if (!property) return [field, value];
      const [inner] = this.#parts(this.#checker.getTypeOfSymbol(property)!).filter(isObject);
      return [field, { ...this.#description(property), ...(inner ? this.#describeFields(value, inner) : value) }];
    });
    return { ...schema, properties: Object.fromEntries(described) };
  }

  #symbol(name: string): Symbol {
    const symbol = this.#exports.get(name);
    if (!symbol) throw new Error(`src/contract.ts does not export ${name}`);
    return symbol.flags & SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  #declared(name: string): Type {
    return this.#checker.getDeclaredTypeOfSymbol(this.#symbol(name));
  }

  #description(symbol: Symbol): JsonSchema {
    const text = this.#checker.getDocumentationCommentOfSymbol(symbol).replace(/\s+/g, ' ').trim();
    return text === '' ? {} : { description: text };
  }

  /** The members of a union, without what stands for a property that is left out. */
  #parts(type: Type): readonly Type[] {
    const parts = type.isUnionType() && !(type.flags & TypeFlags.Boolean) ? type.getTypes() : [type];
    return parts.filter((part) => !(part.flags & TypeFlags.Undefined));
  }

  /** A named object type becomes a reference. */
  #reference(type: Type): JsonSchema {
    const name = type.getAliasSymbol()?.name ?? type.getSymbol()?.name ?? '';
    if (!this.#exports.has(name) || !this.#parts(type).some(isObject)) return this.#expand(type);
    if (!this.#wanted.has(name)) this.#wanted.set(name, type);
    return { $ref: `#/$defs/${name}` };
  }

  #expand(type: Type): JsonSchema {
    const parts = this.#parts(type);
    const [only] = parts;
    if (only && parts.length === 1) return only === type ? this.#expandOne(type) : this.#reference(only);
    const words = parts.flatMap((part) => (part.isLiteralType() ? [part.value] : []));
    const others = parts.filter((part) => !part.isLiteralType()).map((part) => this.#reference(part));
    // Any text makes single words needless.
    const isAnyText = others.some((schema) => schema['type'] === 'string');
    return united(words.length > 0 && !isAnyText ? [oneOfWords(words), ...others] : others);
  }

  #expandOne(type: Type): JsonSchema {
    const { flags } = type;
    if (flags & TypeFlags.Null) return { type: 'null' };
    if (flags & TypeFlags.Boolean) return { type: 'boolean' };
    if (isText(type)) return { type: 'string' };
    // No answer holds a number that is not whole.
    if (flags & TypeFlags.Number) return { type: 'integer' };
    if (type.isLiteralType()) return oneOfWords([type.value]);
    if (flags & TypeFlags.Unknown) return {};
    if (this.#checker.isArrayType(type) && type.isTypeReference()) {
      return { type: 'array', items: this.#reference(this.#checker.getTypeArguments(type)[0]!) };
    }
    if (type.isTypeParameter()) return this.#expand(this.#checker.getConstraintOfTypeParameter(type)!);
    if (isObject(type)) return this.#expandObject(type);
    throw new Error(`no JSON Schema for the type ${this.#checker.typeToString(type)}`);
  }

  #expandObject(type: Type): JsonSchema {
    const properties = this.#checker.getPropertiesOfType(type);
    const index = this.#checker.getIndexInfosOfType(type)[0];
    if (properties.length === 0 && index) {
      return { type: 'object', additionalProperties: this.#reference(index.valueType) };
    }
    const schemas = properties.map((property): [string, JsonSchema] => {
      const schema = this.#reference(this.#checker.getTypeOfSymbol(property)!);
      return [property.name, { ...this.#description(property), ...schema }];
    });
    const required = properties.filter(({ flags }) => !(flags & SymbolFlags.Optional)).map(({ name }) => name);
    return { type: 'object', properties: Object.fromEntries(schemas), ...(required.length > 0 && { required }) };
  }
}

/** `string & {}` keeps an editor's suggestions beside any text. */
function isText(type: Type): boolean {
  return (
    (type.flags & TypeFlags.String) !== 0 || (type.isIntersectionType() && type.getTypes().some((part) => isText(part)))
  );
}

function isObject(type: Type): boolean {
  return type.isObjectType() || (type.isIntersectionType() && !isText(type));
}

function oneOfWords(words: readonly unknown[]): JsonSchema {
  const type = typeof words[0];
  if (type === 'boolean' && words.length > 1) return { type };
  return {
    type: type === 'number' ? 'integer' : type,
    enum: words.toSorted((a, b) => (String(a) < String(b) ? -1 : 1)),
  };
}

/** One schema for any of several, as plain as it can be said. */
function united(schemas: readonly JsonSchema[]): JsonSchema {
  const [other, ...more] = schemas.filter(({ type }) => type !== 'null');
  if (!other || more.length > 0 || typeof other['type'] !== 'string') {
    return schemas.length === 1 ? schemas[0]! : { anyOf: schemas };
  }
  return schemas.length === 1 ? other : nullable(other);
}
