/** The files that hold something for single projects: their keys, their budgets. An error never quotes a value. */
import { z } from 'zod';
import { UNLIMITED, type WritesPerHour } from '../contract/request-queue.js';
import { isObject } from '../contract/shared.js';
import { parseJson } from './settings-file.js';

const PROJECT_SHOWN_CHARS = 100;

const writesPerHour = z
  .custom<WritesPerHour>(
    (given) => given === UNLIMITED || (Number.isSafeInteger(given) && (given as number) > 0),
    `should be a whole number above 0, or "${UNLIMITED}"`,
  )
  .optional();
// A misspelt field would be a budget that is not kept.
const projectBudget = z.strictObject(
  { createsPerHour: writesPerHour, messagesPerHour: writesPerHour },
  'should be an object with createsPerHour or messagesPerHour, and no other field',
);

/** What the upstream takes from a project in any hour; a kind that is absent has no budget of its own. */
export type ProjectBudget = z.output<typeof projectBudget>;

/** Reads the text of PROJECT_KEYS_FILE: an object of projectId → key. */
export function parseProjectKeys(text: string): Map<string, string> {
  return parseByProject(text, z.string('should be a key').trim());
}

/** Reads the text of PROJECT_BUDGETS_FILE: an object of projectId → budget. */
export function parseProjectBudgets(text: string): Map<string, ProjectBudget> {
  return parseByProject(text, projectBudget);
}

/** Not a `z.record`, which leaves a project of the name `__proto__` out. */
function parseByProject<T>(text: string, schema: z.ZodType<T>): Map<string, T> {
  const projects = parseJson(text);
  if (!isObject(projects)) throw new Error('it should hold a JSON object by projectId');
  return new Map(Object.entries(projects).map(([projectId, value]) => [projectId, parsed(projectId, value, schema)]));
}

function parsed<T>(projectId: string, value: unknown, schema: z.ZodType<T>): T {
  const { data, error } = schema.safeParse(value);
  if (!error) return data;
  const { path, message } = error.issues[0]!;
  const place = [`project ${JSON.stringify(projectId.slice(0, PROJECT_SHOWN_CHARS))}`, ...path.map(String)].join(', ');
  throw new Error(`${place}: ${message}`);
}
