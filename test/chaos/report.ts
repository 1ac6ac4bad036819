import type { ChaosReport } from './chaos-run.js';

const MAX_SHOWN = 20;

/** The run in tables: faults survived, ends, writes in doubt by cause, and what went wrong. */
export function formatReport(report: ChaosReport): string {
  const { seed, jobs, writes, seconds, doubled, lost, asked, repeatedByPolicy, upstream, violations } = report;
  const inDoubt = [...report.inDoubt.values()].reduce((a, b) => a + b, 0);
  return [
    '',
    table('Faults survived', 'count', new Map([...report.disturbances, ...report.injectedFaults])),
    table('How the callers saw their jobs end', 'jobs', report.endings),
    table('Errors after which callers said the same again', 'count', report.callerErrors),
    table('Writes in doubt, by cause', 'writes', report.inDoubt),
    table('When all was calm, the jobs said', 'jobs', report.waitedFor),
    `seed ${seed}: ${jobs} jobs, ${writes} writes in ${seconds.toFixed(0)} s; ` +
      `${report.workersStarted} worker processes`,
    `upstream's journal: ${upstream.jobs} jobs, ${upstream.messages} messages; ` +
      `repeated under policy retry: ${repeatedByPolicy.jobs} jobs, ${repeatedByPolicy.messages} messages`,
    `in doubt: ${inDoubt}; put before a person: ${asked}, ` +
      `which is ${((asked / writes) * 1_000).toFixed(2)} per 1,000 writes`,
    `answers 429: ${report.refused.create} to creates, ${report.refused.message} to messages; ` +
      `events of a job: median ${quantile(report, 0.5)}, 99 % ${quantile(report, 0.99)}`,
    `doubled: ${doubled}, lost: ${lost}, violations: ${violations.length}`,
    ...(violations.length > 0 ? [formatViolations(report), `evidence: ${report.evidence}`] : []),
  ].join('\n');
}

/** Events of all runs of a job together. */
function quantile({ summaries }: ChaosReport, share: number): number {
  const events = new Map<string, number>();
  for (const run of summaries) events.set(run.workflowId, (events.get(run.workflowId) ?? 0) + run.events);
  const sorted = [...events.values()].toSorted((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
}

/** Each violation with its seed, its workflow and what the workflow's history tells. */
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
