/** The budgets that are set: how many writes an hour the upstream takes from a project. */
import { parseProjectBudgets, type ProjectBudget, type WritesPerHour } from '../../contract/project-budgets.js';
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

/** Writes that share a budget, and a queue. */
export interface BudgetedWrites {
  operation: WriteOperation;
  projectId: string;
}

const FIELD = { create: 'createsPerHour', message: 'messagesPerHour' } as const;
const OPERATIONS = ['create', 'message'] as const satisfies WriteOperation[];

export class Budgets {
  readonly #forAll: ProjectBudget;
  readonly #file: ReloadingFile<Map<string, ProjectBudget>> | null;
  readonly #path: string;
  readonly #onProblem: (problem: string) => void;
  #projects = new Map<string, ProjectBudget>();
  /** What `changes` has seen last. */
  #seen: Map<string, ProjectBudget> | null = null;
  #problem = '';

  constructor(settings: BudgetSettings = {}, { onProblem = () => {}, checkEveryMs }: BudgetOptions = {}) {
    this.#forAll = settings;
    this.#path = settings.projectBudgetsFile ?? '';
    this.#file = this.#path === '' ? null : new ReloadingFile(this.#path, parseProjectBudgets, checkEveryMs);
    this.#onProblem = onProblem;
  }

  /** Null where none is set. */
  async of(operation: WriteOperation, projectId: string): Promise<WritesPerHour | null> {
    if (this.#file) await this.#refresh(this.#file);
    return this.#in(this.#projects, operation, projectId);
  }

  /** The writes whose budget has changed since this was asked last; none at first. */
  async changes(): Promise<BudgetedWrites[]> {
    if (this.#file) await this.#refresh(this.#file);
    const before = this.#seen;
    const now = this.#projects;
    this.#seen = now;
    if (before === null || before === now) return [];
    return [...new Set([...before.keys(), ...now.keys()])].flatMap((projectId) =>
      OPERATIONS.filter(
        (operation) => this.#in(before, operation, projectId) !== this.#in(now, operation, projectId),
      ).map((operation) => ({ operation, projectId })),
    );
  }

  #in(projects: Map<string, ProjectBudget>, operation: WriteOperation, projectId: string): WritesPerHour | null {
    const field = FIELD[operation];
    return projects.get(projectId)?.[field] ?? this.#forAll[field] ?? null;
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
