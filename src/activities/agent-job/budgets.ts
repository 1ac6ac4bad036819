/** Decides what the upstream takes of a project in an hour and a day: by a file of projects, or settings. */
import { parseProjectBudgets, type ProjectBudget } from '../../config/fields.js';
import { SettingsFile } from '../../config/settings-file.js';
import type { BudgetFacts } from '../../contract/request-queue.js';
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

  /** The budget of a project's writes: null where none is set. Throws if the file never had a good content. */
  async of(operation: WriteOperation, projectId: string): Promise<Required<BudgetFacts>> {
    const set = { ...this.#forAll, ...(await this.ofProjects()).get(projectId) };
    const [perHour = null, perDay = null] =
      operation === 'create' ? [set.createsPerHour, set.createsPerDay] : [set.messagesPerHour, set.messagesPerDay];
    return { perHour, perDay };
  }

  /** The budgets of single projects: another map once the file has changed. */
  async ofProjects(): Promise<ProjectBudgets> {
    return this.#file?.read() ?? NO_FILE;
  }
}
