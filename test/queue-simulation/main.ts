/**
 * `npm run test:queue-simulation -- [--only NAME,…] [--shrink N] [--release FOLDER] [--out FILE]`: what the queue of
 * requests promises, on a server that skips time. Exits with 1 where a promise is broken. With a build of release 0.2.0
 * it also shows what happens without a queue.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { findTimeSkippingProgram } from '../support/time-skipping-program.js';
import { runHerd, SCENARIOS } from './scenarios.js';

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(SCENARIOS).join() },
    shrink: { type: 'string', default: '1' },
    release: { type: 'string' },
    out: { type: 'string' },
  },
});
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
  recorded['herd'] = await runHerd(options, values.release);
  show('herd: three hours’ worth of creates at once, release 0.2.0', startedAt, recorded['herd']);
}
if (values.out !== undefined) writeFileSync(values.out, JSON.stringify(recorded));
// The Temporal client's connections may linger.
process.exit();

function show(title: string, startedAt: number, figures: unknown): void {
  console.log(`${title} (${Math.round((Date.now() - startedAt) / 1_000)} s)`);
  const shown = JSON.stringify(figures, (key, value: unknown) => (key.endsWith('At') ? undefined : value));
  console.log(`  ${shown}`);
}
