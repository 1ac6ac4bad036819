/**
 * Temporal fails a workflow task that sets a search attribute which its namespace does not know, and repeats it for
 * ever. So `agent-jobs setup` and the embedded server register them, as the SDK does not. A worker registers none: it
 * may lack the right, and says what is missing (`src/worker/open-jobs.ts`).
 */
import { attributeType, SEARCH_ATTRIBUTE } from '../contract.js';
import { AgentJobsError } from '../contract/errors.js';
import { hasGrpcStatus } from './grpc.js';

/** `IndexedValueType` of Temporal's API. */
const TYPES = ['Unspecified', 'Text', 'Keyword', 'Int', 'Double', 'Bool', 'Datetime', 'KeywordList'] as const;
const ATTRIBUTE_NAMES: readonly string[] = Object.values(SEARCH_ATTRIBUTE);

/** What a Connection of the client or of the worker offers. */
export interface Connected {
  operatorService: {
    listSearchAttributes(request: {
      namespace: string;
    }): Promise<{ customAttributes?: Record<string, unknown> | null }>;
    addSearchAttributes(request: { namespace: string; searchAttributes: Record<string, number> }): Promise<unknown>;
  };
}

/** The server does not register search attributes for this caller; `commands` do it with other rights. */
export class SearchAttributesRefusedError extends AgentJobsError {
  override readonly name = 'SearchAttributesRefusedError';
  override readonly code = 'SEARCH_ATTRIBUTES_REFUSED';
  readonly commands: { selfHosted: string[]; cloud: string };
  constructor(namespace: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`search attributes of namespace "${namespace}" could not be registered: ${why}`, {
      cause,
      retryable: hasGrpcStatus(cause, 'unavailable') || hasGrpcStatus(cause, 'deadlineExceeded'),
    });
    this.commands = registrationCommands(namespace);
  }

  /** Whether the namespace has no room for them, as with SQL visibility: no other rights would help. */
  get isFull(): boolean {
    return this.message.includes('cannot have more than');
  }
}

/** Registers the search attributes that a namespace lacks and answers with their names; those it has are left alone. */
export async function ensureSearchAttributes(connection: Connected, namespace: string): Promise<string[]> {
  try {
    const missing = await missingSearchAttributes(connection, namespace);
    if (missing.length > 0) await add(connection, namespace, missing);
    return missing;
  } catch (error) {
    throw new SearchAttributesRefusedError(namespace, error);
  }
}

/** The project's search attributes that a namespace lacks. */
export async function missingSearchAttributes(connection: Connected, namespace: string): Promise<string[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return ATTRIBUTE_NAMES.filter((name) => customAttributes?.[name] === undefined);
}

/** The project's search attributes that a namespace has with another type, by name. */
export async function mistypedSearchAttributes(
  { operatorService }: Connected,
  namespace: string,
): Promise<Record<string, string>> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const found = ATTRIBUTE_NAMES.map((name) => [name, customAttributes?.[name]] as const);
  const others = found.filter(([name, type]) => type !== undefined && TYPES[Number(type)] !== attributeType(name));
  return Object.fromEntries(others.map(([name, type]) => [name, TYPES[Number(type)] ?? String(type)]));
}

async function add({ operatorService }: Connected, namespace: string, names: string[]): Promise<void> {
  try {
    const searchAttributes = Object.fromEntries(names.map((name) => [name, TYPES.indexOf(attributeType(name))]));
    await operatorService.addSearchAttributes({ namespace, searchAttributes });
  } catch (error) {
    // Another process registered them in between.
    if (!hasGrpcStatus(error, 'alreadyExists')) throw error;
  }
}

/** The same registration with Temporal's own command-line tools. */
function registrationCommands(namespace: string): { selfHosted: string[]; cloud: string } {
  const attributes = ATTRIBUTE_NAMES.map((name) => `--search-attribute "${name}=${attributeType(name)}"`).join(' ');
  return {
    selfHosted: ATTRIBUTE_NAMES.map(
      (name) =>
        `temporal operator search-attribute create --namespace "${namespace}" ` +
        `--name ${name} --type ${attributeType(name)}`,
    ),
    cloud: `tcld namespace search-attributes add --namespace "${namespace}" ${attributes}`,
  };
}
