/**
 * Temporal fails a workflow task that sets a search attribute which its namespace does not know, and repeats it for
 * ever. So `agent-jobs setup` and the embedded server register them, as the SDK does not. A worker registers none: it
 * may lack the right, and says what is missing (`src/worker/open-jobs.ts`). Their
 * names and types are in contract/agent-job.ts.
 */
import { attributeType, SEARCH_ATTRIBUTE } from '../contract.js';
import { AgentJobsError } from '../contract/errors.js';
import { hasGrpcStatus } from './grpc.js';

/** `IndexedValueType` of Temporal's API. */
const TYPES = ['Unspecified', 'Text', 'Keyword', 'Int', 'Double', 'Bool', 'Datetime', 'KeywordList'] as const;
const NAMES: readonly string[] = Object.values(SEARCH_ATTRIBUTE);

/** What a Connection of the client or of the worker offers. */
interface Connected {
  operatorService: {
    listSearchAttributes(request: {
      namespace: string;
    }): Promise<{ customAttributes?: Record<string, unknown> | null }>;
    addSearchAttributes(request: { namespace: string; searchAttributes: Record<string, number> }): Promise<unknown>;
  };
}

/** A namespace has no room for all of the project's search attributes of a type, as with SQL visibility. */
interface FullNamespace {
  /** For example `Keyword`. */
  type: string;
  /** How many of the type it takes. */
  most: number;
  /** Those that are not the project's. */
  others: string[];
}

/** How the server says so. */
const FULL = /cannot have more than (\d+) search attribute of type (\w+)/;

/** The server does not let this caller register search attributes; `commands` do it with other rights. */
export class SearchAttributesRefusedError extends AgentJobsError {
  override readonly name = 'SearchAttributesRefusedError';
  override readonly code = 'SEARCH_ATTRIBUTES_REFUSED';
  readonly commands: { selfHosted: string[]; cloud: string };
  /** There is no room for them, and no other rights would help. */
  readonly full: FullNamespace | null;
  constructor(namespace: string, cause: unknown, full: FullNamespace | null = null) {
    const why = full === null ? messageOf(cause) : describe(full);
    super(`search attributes of namespace "${namespace}" could not be registered: ${why}`, {
      cause,
      retryable: hasGrpcStatus(cause, 'unavailable') || hasGrpcStatus(cause, 'deadlineExceeded'),
    });
    this.commands = registrationCommands(namespace);
    this.full = full;
  }
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function describe({ type, most, others }: FullNamespace): string {
  return `it takes ${most} of type ${type}, and ${others.length} are others: ${others.join(', ')}`;
}

/** Registers the search attributes that a namespace lacks and answers with their names; those it has are left alone. */
export async function ensureSearchAttributes(connection: Connected, namespace: string): Promise<string[]> {
  try {
    const missing = await missingSearchAttributes(connection, namespace);
    if (missing.length > 0) await add(connection, namespace, missing);
    return missing;
  } catch (error) {
    throw new SearchAttributesRefusedError(namespace, error, await fullNamespace(connection, namespace, error));
  }
}

/** What the server meant, where it has no room. */
async function fullNamespace(
  { operatorService }: Connected,
  namespace: string,
  error: unknown,
): Promise<FullNamespace | null> {
  const [, most, type] = FULL.exec(messageOf(error)) ?? [];
  if (type === undefined) return null;
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const others = Object.entries(customAttributes ?? {})
    .filter(([name, number]) => TYPES[Number(number)] === type && !isOurs(name, type))
    .map(([name]) => name);
  return { type, most: Number(most), others: others.toSorted() };
}

function isOurs(name: string, type: string): boolean {
  return NAMES.includes(name) && attributeType(name) === type;
}

/** How many of a type the project has. */
export function countOfType(type: string): number {
  return NAMES.filter((name) => isOurs(name, type)).length;
}

/** The project's search attributes that a namespace lacks. */
export async function missingSearchAttributes(connection: Connected, namespace: string): Promise<string[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return NAMES.filter((name) => customAttributes?.[name] === undefined);
}

function typeNumber(name: string): number {
  return TYPES.indexOf(attributeType(name));
}

/** A search attribute that is registered by another type than the jobs set. */
export interface WrongAttribute {
  name: string;
  /** The type's name, as Temporal's own tools show it. */
  type: string;
}

/** The project's search attributes that a namespace has by another type than the jobs set. */
export async function wrongSearchAttributes(connection: Connected, namespace: string): Promise<WrongAttribute[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return NAMES.flatMap((name) => {
    const type = customAttributes?.[name];
    return type === undefined || type === typeNumber(name) ? [] : [{ name, type: TYPES[Number(type)] ?? 'unknown' }];
  });
}

/** How a wrong attribute is put away with Temporal's own command-line tools; `agent-jobs setup` then registers it. */
export function removalCommands(
  namespace: string,
  names: readonly string[],
): { selfHosted: string[]; cloud: string[] } {
  return {
    selfHosted: names.map(
      (name) => `temporal operator search-attribute remove --namespace "${namespace}" --name ${name}`,
    ),
    cloud: names.map(
      (name) =>
        `tcld namespace search-attributes rename --namespace "${namespace}" ` +
        `--existing-name ${name} --new-name ${name}Old`,
    ),
  };
}

async function add({ operatorService }: Connected, namespace: string, names: string[]): Promise<void> {
  try {
    const searchAttributes = Object.fromEntries(names.map((name) => [name, typeNumber(name)]));
    await operatorService.addSearchAttributes({ namespace, searchAttributes });
  } catch (error) {
    // Another process registered them in between.
    if (!hasGrpcStatus(error, 'alreadyExists')) throw error;
  }
}

/** The same registration with Temporal's own command-line tools. */
function registrationCommands(namespace: string): { selfHosted: string[]; cloud: string } {
  const attributes = NAMES.map((name) => `--search-attribute "${name}=${attributeType(name)}"`).join(' ');
  return {
    selfHosted: NAMES.map(
      (name) =>
        `temporal operator search-attribute create --namespace "${namespace}" ` +
        `--name ${name} --type ${attributeType(name)}`,
    ),
    cloud: `tcld namespace search-attributes add --namespace "${namespace}" ${attributes}`,
  };
}
