import type { ChaosReport } from './chaos-run.js';

const MAX_SHOWN = 20;

/** The run in tables: faults survived, ends, what a person was asked, and what went wrong. */
export function formatReport(report: ChaosReport): string {
  const { seed, jobs, writes, seconds, doubled, lost, asked, inDoubt, violations, workersStarted } = report;
  const allAsked = [...asked.values()].reduce((sum, times) => sum + times, 0);
  return [
    '',
    table('Faults survived', 'count', report.faults),
    table('How the callers saw their jobs end', 'jobs', report.endings),
    table('Why writes were put before a person', 'writes', asked),
    `seed ${seed}: ${jobs} jobs, ${writes} writes in ${seconds.toFixed(0)} s; ${workersStarted} worker processes`,
    `in doubt: ${inDoubt}; put before a person: ${allAsked}`,
    `doubled: ${doubled}, lost: ${lost}, violations: ${violations.length}`,
    formatViolations(report),
  ].join('\n');
}

/** Each violation with its seed, its workflow, and the facts of the workflow's history. */
export function formatViolations({ seed, violations, summaries }: ChaosReport): string {
  const lines = violations
    .slice(0, MAX_SHOWN)
    .flatMap(({ workflowId, what }) => [
      `seed ${seed}: ${workflowId}: ${what}`,
      ...summaries
        .filter((summary) => summary.workflowId === workflowId)
        .map(({ workflowId: _, runId, ...facts }) => `    run ${runId}: ${JSON.stringify(facts)}`),
    ]);
  return lines.join('\n');
}

function table(title: string, unit: string, rows: ReadonlyMap<string, number>): string {
  const sorted = [...rows].filter(([, count]) => count > 0).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (sorted.length === 0) return '';
  const width = Math.max(title.length, ...sorted.map(([name]) => name.length));
  const lines = sorted.map(([name, count]) => `  ${name.padEnd(width)}  ${String(count).padStart(8)}`);
  return [`  ${title.padEnd(width)}  ${unit.padStart(8)}`, ...lines, ''].join('\n');
}
