/** Decides how many writes an hour the upstream takes from a project: by the file of projects, or one setting. */
import { parseProjectBudgets, type ProjectBudget } from '../../config/fields.js';
import { SettingsFile } from '../../config/settings-file.js';
import type { WritesPerHour } from '../../contract/request-queue.js';
import type { WriteOperation } from '../metrics.js';

/** What a worker is set to. */
export interface BudgetSettings extends ProjectBudget {
  /** A file with budgets of single projects, which win. */
  projectBudgetsFile?: string;
}

/** How a worker watches the file of budgets. */
export interface BudgetOptions {
  /** Receives each new problem of the file, and null when it is gone; the last good content holds meanwhile. */
  onProblem?: (problem: string | null) => void;
  checkEveryMs?: number;
}

type ProjectBudgets = ReadonlyMap<string, ProjectBudget>;

const FIELD = { create: 'createsPerHour', message: 'messagesPerHour' } as const;
const NO_FILE: ProjectBudgets = new Map();

/** The budgets of one worker. */
export class Budgets {
  readonly #forAll: ProjectBudget;
  readonly #file: SettingsFile<ProjectBudgets> | null;

  constructor(settings: BudgetSettings = {}, { onProblem = () => {}, checkEveryMs }: BudgetOptions = {}) {
    this.#forAll = settings;
    const { projectBudgetsFile: path = '' } = settings;
    const file = { name: 'PROJECT_BUDGETS_FILE', path, parse: parseProjectBudgets, onProblem, checkEveryMs };
    this.#file = path === '' ? null : new SettingsFile(file);
  }

  /** The budget of a project's writes; null if none is set. Throws if the file never had a good content. */
  async of(operation: WriteOperation, projectId: string): Promise<WritesPerHour | null> {
    const field = FIELD[operation];
    return (await this.ofProjects()).get(projectId)?.[field] ?? this.#forAll[field] ?? null;
  }

  /** The budgets of single projects: another map once the file has changed. */
  async ofProjects(): Promise<ProjectBudgets> {
    return this.#file?.read() ?? NO_FILE;
  }
}
