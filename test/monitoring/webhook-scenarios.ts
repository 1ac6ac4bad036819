/** Faults of webhooks, and of the callers of HTTP. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Receiver } from '../webhooks/receiver.js';
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

const receiverFails: Scenario = {
  name: 'webhook-receiver-fails',
  fault: 'a receiver that took a webhook answers 500 from then on, while a job ends every ten minutes',
  fires: ['AgentJobsWebhooksFail'],
  async record(server) {
    const world = await World.open(server, 'webhook-receiver-fails');
    const receiver = await new Receiver().start();
    try {
      const env = { WEBHOOKS_FILE: receiver.file, WEBHOOKS_ALLOW_PRIVATE: 'true' };
      const worker = await world.startWorker({ env });
      const run = async () => {
        await world.startJob('acme', 'taken');
        await pause(8);
        receiver.otherwise = 500;
        for (let n = 0; n < 7; n++) {
          await world.startJob('acme', `refused-${n}`);
          await pause(10);
        }
      };
      return await recordUntil(run(), { 'worker-1:9464': worker.port });
    } finally {
      await world.close();
      await receiver.close();
    }
  },
};

const callersRefused: Scenario = {
  name: 'callers-refused',
  fault: 'a caller reads a job every ten seconds with a key that was taken from HTTP_KEYS_FILE',
  fires: ['AgentJobsCallersRefused'],
  async record(server) {
    const world = await World.open(server, 'callers-refused');
    try {
      const worker = await world.startWorker();
      const serve = await world.startServe();
      const run = async () => {
        await pause(1);
        for (let n = 0; n < 50; n++) {
          await (await fetch(`${serve.url}/v1/projects/acme/jobs/a`, { headers: serve.wrongKey })).arrayBuffer();
          await delay(10_000);
        }
      };
      return await recordUntil(run(), { 'worker-1:9464': worker.port, 'serve-1:8080': serve.port });
    } finally {
      await world.close();
    }
  },
};

export const webhookScenarios: Scenario[] = [fileWrong, receiverFails, callersRefused];
