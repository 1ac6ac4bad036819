/** The rules and the dashboard, as the tests read them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

export interface Rule {
  alert: string;
  expr: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

export interface Panel {
  title: string;
  queries: string[];
}

const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const RULES_FILE = file('deploy/prometheus/agent-jobs.rules.yml');
export const RULE_TESTS_FILE = file('deploy/prometheus/agent-jobs.tests.yml');
const DASHBOARD_FILE = file('deploy/grafana/dashboards/agent-jobs.json');

/** All rules, in the file's order. */
export function readRules(): Rule[] {
  const { groups } = parse(readFileSync(RULES_FILE, 'utf8')) as { groups: { rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

interface DashboardPanel {
  title: string;
  type: string;
  targets?: { expr: string }[];
}

function readDashboard(): { panels: DashboardPanel[] } {
  return JSON.parse(readFileSync(DASHBOARD_FILE, 'utf8')) as { panels: DashboardPanel[] };
}

/** The panels with their queries, for the job `agent-jobs` and a range of five minutes. */
export function readPanels(): Panel[] {
  return readDashboard()
    .panels.filter(({ type }) => type !== 'row')
    .map(({ title, targets = [] }) => ({
      title,
      queries: targets.map(({ expr }) => expr.replaceAll('$job', 'agent-jobs').replaceAll('$__rate_interval', '5m')),
    }));
}

/** Every expression of rules and dashboard. */
export function readExpressions(): string[] {
  return [...readRules().map(({ expr }) => expr), ...readPanels().flatMap(({ queries }) => queries)];
}
