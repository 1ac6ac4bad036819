/** The settings of the projects' budgets. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { parseProjectBudgets, UNLIMITED, type WritesPerHour } from '../contract/project-budgets.js';
import { wholeNumberOr } from './fields.js';

const projectBudgetsFileField = z.string().transform((path, context): string => {
  try {
    parseProjectBudgets(readFileSync(path, 'utf8'));
    return path;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    context.addIssue({
      code: 'custom',
      message: `${path}: ${code === undefined ? message : `it cannot be read (${code})`}`,
    });
    return z.NEVER;
  }
});

const writesPerHourField = wholeNumberOr(UNLIMITED);

export const budgetsSchema = z.object({
  CREATES_PER_HOUR: writesPerHourField.optional(),
  MESSAGES_PER_HOUR: writesPerHourField.optional(),
  PROJECT_BUDGETS_FILE: projectBudgetsFileField.optional(),
});

/** What the upstream takes from one project in any hour, over all workers; what is absent is not known. */
export interface BudgetsConfig {
  createsPerHour?: WritesPerHour;
  messagesPerHour?: WritesPerHour;
  /** A file with budgets of single projects, which win. */
  projectBudgetsFile?: string;
}

/** The settings as the worker knows them. */
export function toBudgets(values: z.output<typeof budgetsSchema>): BudgetsConfig {
  const { CREATES_PER_HOUR: createsPerHour, MESSAGES_PER_HOUR: messagesPerHour } = values;
  const { PROJECT_BUDGETS_FILE: projectBudgetsFile } = values;
  return {
    ...(createsPerHour !== undefined && { createsPerHour }),
    ...(messagesPerHour !== undefined && { messagesPerHour }),
    ...(projectBudgetsFile !== undefined && { projectBudgetsFile }),
  };
}
