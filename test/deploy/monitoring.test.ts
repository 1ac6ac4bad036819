/** Prometheus and Grafana of the compose file, as far as files show it without containers. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const FOLDER = new URL('../../', import.meta.url).pathname;
const read = <T>(path: string) => parse(readFileSync(join(FOLDER, path), 'utf8'), { merge: true }) as T;

interface Service {
  profiles?: string[];
  volumes?: string[];
  ports?: string[];
  environment?: Record<string, string>;
  command?: string[];
}

const { services, volumes } = read<{ services: Record<string, Service>; volumes: object }>('docker-compose.yml');

test('every file that they mount is there, and every volume is declared', () => {
  const sources = ['prometheus', 'grafana'].flatMap((name) =>
    services[name]!.volumes!.map((mount) => mount.split(':')[0]!),
  );
  const isThere = (source: string) => (source.startsWith('./') ? existsSync(join(FOLDER, source)) : source in volumes);
  expect(sources).toHaveLength(5);
  expect(sources.filter((source) => !isThere(source))).toEqual([]);
});

test('Prometheus scrapes the workers where they show their metrics, as the job that the alerts expect', () => {
  const { scrape_configs: jobs, rule_files: rules } = read<{
    scrape_configs: { job_name: string; dns_sd_configs?: { names: string[]; port: number }[] }[];
    rule_files: string[];
  }>('deploy/prometheus/prometheus.yml');
  const job = jobs.find(({ job_name: name }) => name === 'agent-jobs')!;
  const port = Number(services['worker']!.environment!['METRICS_ADDRESS']!.split(':')[1]);
  expect(job.dns_sd_configs).toMatchObject([{ names: ['worker'], port }]);
  const http = jobs.find(({ job_name: name }) => name === 'agent-jobs-http')!;
  const httpPort = Number(services['serve']!.environment!['HTTP_ADDRESS']!.split(':')[1]);
  expect(http.dns_sd_configs).toMatchObject([{ names: ['serve'], port: httpPort }]);
  for (const file of rules) expect(existsSync(join(FOLDER, 'deploy/prometheus', file))).toBe(true);
});
