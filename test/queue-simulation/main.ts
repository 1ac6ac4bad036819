/**
 * What the queue of requests promises, on a server that skips time: `npm run test:queue-simulation -- --help`. Exits
 * with 1 where a promise is broken.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { findTimeSkippingProgram } from '../support/time-skipping-program.js';
import { SCENARIOS } from './scenarios.js';

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(SCENARIOS).join() },
    shrink: { type: 'string', default: '1' },
    out: { type: 'string' },
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
    '  --out FILE        writes all figures as JSON',
  ].join('\n');
}
