/** The budgets that are set: how many writes an hour the upstream takes from a project. */
import { parseProjectBudgets, type ProjectBudget } from '../../contract/project-budgets.js';
import { ReloadingFile } from '../../upstream/reloading-file.js';
import type { WriteOperation } from '../metrics.js';

export interface BudgetSettings extends ProjectBudget {
  /** A file with budgets of single projects, which win. */
  projectBudgetsFile?: string;
}

export interface BudgetOptions {
  /** Told what is wrong with the file, once for each new problem; the last good content holds meanwhile. */
  onProblem?: (problem: string) => void;
  checkEveryMs?: number;
}

const FIELD = { create: 'createsPerHour', message: 'messagesPerHour' } as const;

export class Budgets {
  readonly #forAll: ProjectBudget;
  readonly #file: ReloadingFile<Map<string, ProjectBudget>> | null;
  readonly #path: string;
  readonly #onProblem: (problem: string) => void;
  #projects = new Map<string, ProjectBudget>();
  #problem = '';

  constructor(settings: BudgetSettings = {}, { onProblem = () => {}, checkEveryMs }: BudgetOptions = {}) {
    this.#forAll = settings;
    this.#path = settings.projectBudgetsFile ?? '';
    this.#file = this.#path === '' ? null : new ReloadingFile(this.#path, parseProjectBudgets, checkEveryMs);
    this.#onProblem = onProblem;
  }

  /** Null where none is set. */
  async perHour(operation: WriteOperation, projectId: string): Promise<number | null> {
    const field = FIELD[operation];
    if (this.#file) await this.#refresh(this.#file);
    return this.#projects.get(projectId)?.[field] ?? this.#forAll[field] ?? null;
  }

  async #refresh(file: ReloadingFile<Map<string, ProjectBudget>>): Promise<void> {
    try {
      this.#projects = await file.read();
      this.#problem = '';
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const problem = `${this.#path}: ${code === undefined ? message : `it cannot be read (${code})`}`;
      if (problem !== this.#problem) this.#onProblem(problem);
      this.#problem = problem;
    }
  }
}
