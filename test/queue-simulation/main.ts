/**
 * What the queue of requests promises, on a server that skips time: `npm run test:queue-simulation -- --help`. Exits
 * with 1 where a promise is broken.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { CrowdResult } from './crowd.js';
import { drawQueue } from './plot.js';
import { buildRelease } from './release.js';
import { findTimeSkippingProgram } from '../support/time-skipping-program.js';
import { runHerd, SCENARIOS } from './scenarios.js';

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(SCENARIOS).join() },
    shrink: { type: 'string', default: '1' },
    release: { type: 'string' },
    out: { type: 'string' },
    picture: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage());
  process.exit();
}
const server = await findTimeSkippingProgram(console.error);
const options = { server, shrink: Number(values.shrink) };
const recorded: Record<string, unknown> = {};
for (const name of values.only.split(',').filter(Boolean)) {
  const scenario = SCENARIOS[name];
  if (!scenario) throw new Error(`there is no scenario ${name}: ${Object.keys(SCENARIOS).join()}`);
  const startedAt = Date.now();
  const { figures, broken } = await scenario.run(options);
  recorded[name] = figures;
  show(`${name}: ${scenario.title}`, startedAt, figures);
  for (const promise of broken) console.log(`  BROKEN: ${promise}`);
  if (broken.length > 0) process.exitCode = 1;
}
if (values.release !== undefined) {
  const startedAt = Date.now();
  recorded['herd'] = await runHerd(options, buildRelease(values.release));
  show('herd: three hours’ worth of creates at once, release 0.2.0', startedAt, recorded['herd']);
}
const { sliding, herd } = recorded as Record<string, CrowdResult>;
if (values.picture !== undefined && sliding && herd) drawQueue(values.picture, sliding, herd);
if (values.out !== undefined) writeFileSync(values.out, JSON.stringify(recorded));
// The Temporal client's connections may linger.
process.exit();

function show(title: string, startedAt: number, figures: unknown): void {
  console.log(`${title} (${Math.round((Date.now() - startedAt) / 1_000)} s)`);
  const shown = JSON.stringify(figures, (key, value: unknown) => (key.endsWith('At') ? undefined : value));
  console.log(`  ${shown}`);
}

function usage(): string {
  return [
    'npm run test:queue-simulation -- [options]',
    '',
    `  --only NAME,…     scenarios: ${Object.keys(SCENARIOS).join(', ')}; default: all`,
    '  --shrink N        N times fewer jobs, and N times fewer an hour',
    '  --release TAG     also what release 0.2.0 does without a queue: v0.2.0, or the folder of its build',
    '  --out FILE        writes all figures as JSON',
    '  --picture FOLDER  draws queue.svg, of the scenario sliding and of --release',
  ].join('\n');
}
