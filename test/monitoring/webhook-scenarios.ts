/** Faults of webhooks. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { recordUntil } from './recorder.js';
import { pause, type Scenario } from './scenario.js';
import { World } from './world.js';

const fileWrong: Scenario = {
  name: 'webhooks-file-wrong',
  fault: 'WEBHOOKS_FILE is replaced by one with a misspelt field, and a job ends',
  fires: ['AgentJobsWebhooksFileWrong'],
  async record(server) {
    const world = await World.open(server, 'webhooks-file-wrong');
    const file = join(world.folder, 'webhooks.json');
    try {
      await writeFile(file, JSON.stringify({ acme: [] }));
      const worker = await world.startWorker({ env: { WEBHOOKS_FILE: file } });
      const run = async () => {
        await pause(1);
        await writeFile(file, JSON.stringify({ acme: [{ uri: 'https://example.com/hooks' }] }));
        await world.startJob('acme', 'a');
        await pause(9);
      };
      return await recordUntil(run(), { 'worker-1:9464': worker.port });
    } finally {
      await world.close();
    }
  },
};

export const webhookScenarios: Scenario[] = [fileWrong];
