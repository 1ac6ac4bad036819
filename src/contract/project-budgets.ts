/** The JSON of `PROJECT_BUDGETS_FILE`: how many writes an hour the upstream takes from each project. Pure. */
import { checkId, InvalidInputError } from './input-checks.js';
import { isObject } from './shared.js';

/** So many writes in any hour, or any number of them. */
export type WritesPerHour = number | typeof UNLIMITED;

export const UNLIMITED = 'unlimited';

/** What the upstream takes from a project in any hour; a kind that is absent has no budget of its own. */
export interface ProjectBudget {
  createsPerHour?: WritesPerHour;
  messagesPerHour?: WritesPerHour;
}

const FIELDS: readonly string[] = ['createsPerHour', 'messagesPerHour'] satisfies (keyof ProjectBudget)[];
const PROJECT_SHOWN_CHARS = 100;

/** Reads the file's text: an object of projectId → budget. Throws an Error that names the project and the field. */
export function parseProjectBudgets(text: string): Map<string, ProjectBudget> {
  const projects = parseJson(text);
  if (!isObject(projects)) throw new Error('it should hold a JSON object of projectId to budgets');
  return new Map(Object.entries(projects).map(([projectId, budget]) => [projectId, checkBudget(projectId, budget)]));
}

function checkBudget(projectId: string, budget: unknown): ProjectBudget {
  const project = `project ${JSON.stringify(projectId.slice(0, PROJECT_SHOWN_CHARS))}`;
  checkProjectId(projectId, project);
  if (!isObject(budget)) throw new Error(`${project} should have an object with ${FIELDS.join(' or ')}`);
  for (const [field, value] of Object.entries(budget)) {
    // A misspelt field would be a budget that nobody keeps.
    if (!FIELDS.includes(field)) throw new Error(`${project} has a field that is none of ${FIELDS.join(', ')}`);
    if (value !== UNLIMITED && (!Number.isSafeInteger(value) || (value as number) < 1)) {
      throw new Error(`${project}: ${field} should be a whole number above 0, or "${UNLIMITED}"`);
    }
  }
  return budget;
}

/** A budget of a project that cannot be would be one that nobody keeps. */
function checkProjectId(projectId: string, project: string): void {
  try {
    checkId(projectId, 'projectId');
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw new Error(`${project} is none: ${error.message}`, { cause: error });
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes the file.
    throw new Error('it is not valid JSON');
  }
}
