/**
 * The kustomize base and its components are rendered from the chart, file by file: there is one truth. The base needs
 * no CRD; what needs one is a component.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const KUBERNETES_FOLDER = fileURLToPath(new URL('../../deploy/kubernetes/', import.meta.url));
export const CHART = join(KUBERNETES_FOLDER, 'chart');

const RELEASE = 'agent-jobs';
const BASE_VALUES = join(KUBERNETES_FOLDER, 'base/values.yaml');

/** What each template of the chart becomes. */
const FILES: Record<string, string> = {
  'service-account': 'base',
  'setup-job': 'base',
  workers: 'base',
  'disruption-budgets': 'base',
  'network-policy': 'base',
  service: 'base',
  http: 'components/http',
  'service-monitor': 'components/monitoring',
  'scaled-object': 'components/keda',
};

/** The chart as Helm renders it with these values; rejects with what Helm says. */
export async function renderChart(helm: string, args: readonly string[]): Promise<string> {
  const { stdout } = await run(helm, ['template', RELEASE, CHART, ...args], { maxBuffer: 16 * 1024 ** 2 });
  return stdout;
}

/** The text of each rendered file of base and components, by its path below `deploy/kubernetes`. */
export async function renderedFiles(helm: string): Promise<Record<string, string>> {
  const all = ['--set', 'serviceMonitor.enabled=true,autoscaling.enabled=true,http.replicas=2'];
  const withoutCrds = byTemplate(await renderChart(helm, ['-f', BASE_VALUES]));
  const everything = byTemplate(await renderChart(helm, ['-f', BASE_VALUES, ...all]));
  return Object.fromEntries(
    Object.entries(FILES).map(([template, folder]) => {
      const objects = (folder === 'base' ? withoutCrds : everything).get(template) ?? [];
      const head = '# Rendered from ../chart by "npm run kubernetes:render".\n'.replace(
        '../',
        '../'.repeat(folder.split('/').length),
      );
      return [`${folder}/${template}.yaml`, head + objects.join('---\n')];
    }),
  );
}

/** The objects that each template made, as text. */
function byTemplate(rendered: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const [, template, text] of rendered.matchAll(
    /^# Source: agent-jobs\/templates\/([\w-]+)\.yaml\n([\s\S]*?)(?=^---\n|(?![\s\S]))/gm,
  )) {
    found.set(template!, [...(found.get(template!) ?? []), text!.replaceAll(/[ \t]+$/gm, '')]);
  }
  return found;
}
