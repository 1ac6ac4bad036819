/** A misspelt field of what a person wrote is invalid before anything is sent, with the names that are known. */
import { expect, test } from 'vitest';
import { FakeAgentJobs } from '../../src/client/fake-agent-jobs.js';
import { AgentJobs, type AttachRequest, type JobFilter, type StartRequest } from '../../src/starter.js';
import { gathered } from './job-server.js';
import { useNoServer } from './no-server.js';

const real = useNoServer();

/** As a caller without types writes it. */
const job = (more: object) => ({ key: 'k', projectId: 'p', prompt: 'x', ...more }) as StartRequest;
const RANGE = { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
const INVALID = { code: 'INVALID_INPUT' };
const AWAY = { code: 'TEMPORAL_UNAVAILABLE' };

test.for([
  [{ deadlin: '1 hour' }, 'deadlin', 'known are key, projectId, prompt, jobId'],
  [{ polling: { maximum: '5 minutes' } }, 'polling.maximum', 'known are min, max, ratio'],
  [{ toString: 1 }, 'toString', 'known are key, projectId'],
] as const)('%j is invalid for start, attach and startMany, real and fake', async ([more, field, remedy]) => {
  const fake = new FakeAgentJobs();
  const invalid = { ...INVALID, field, message: expect.stringContaining(remedy) as string };
  for (const jobs of [real, fake]) {
    await expect(jobs.start(job(more))).rejects.toMatchObject(invalid);
    const attached: object = { projectId: 'p', jobId: 'j', ...more };
    await expect(jobs.attach(attached as AttachRequest)).rejects.toMatchObject(invalid);
  }
  expect(await gathered(real.startMany([job(more)]))).toMatchObject([{ key: 'k', fate: 'refused', error: invalid }]);
  expect(fake.jobs).toEqual([]);
});

test('allowUnknown sends a field of a newer release as it is', async () => {
  const fake = new FakeAgentJobs();
  const newer = { patience: '1 hour', polling: { shape: 'flat' } };
  await fake.start(job({ ...newer, key: 'a' }), { allowUnknown: true });
  const attached: object = { projectId: 'p', jobId: 'j', ...newer };
  await fake.attach(attached as AttachRequest, { allowUnknown: true });
  expect(fake.jobs.map(({ input }) => input)).toEqual(Array(2).fill(expect.objectContaining(newer)));
  await expect(real.start(job(newer), { allowUnknown: true })).rejects.toMatchObject(AWAY);
});

test('names in metadata are the caller’s own, and what is null or undefined names nothing', async () => {
  const fake = new FakeAgentJobs();
  await fake.start(job({ metadata: { deadlin: 'x' }, deadlin: null, polling: { mn: undefined }, tags: ['deadlin'] }));
  expect(fake.jobs).toHaveLength(1);
});

test('a misspelt option of a call is invalid, with the names that are known', async () => {
  const one = real.handle({ projectId: 'p', key: 'k' });
  const calls: [call: (options: object) => unknown, option: object, meant: string][] = [
    [(options) => real.start(job({}), options), { timeoutMS: 1 }, 'timeoutMs'],
    [(options) => real.attach({ projectId: 'p', jobId: 'j' }, options), { allowunknown: true }, 'allowUnknown'],
    [(options) => gathered(real.startMany([], options)), { concurency: 1 }, 'concurrency'],
    [(options) => gathered(real.list({}, options)), { sginal: 1 }, 'signal'],
    [(options) => real.listPage({}, options), { pagesize: 1 }, 'pageSize'],
    [(options) => real.exportVisitors(RANGE, options), { timeout: 1 }, 'timeoutMs'],
    [(options) => one.followUp('x', options), { Id: 'a' }, 'id'],
    [(options) => one.sendFollowUp('x', options), { onlywhileRunning: true }, 'onlyWhileRunning'],
    [(options) => one.state(options), { timeoutMs: 1, signl: 1 }, 'signal'],
    [(options) => one.cancel(options), { nota: 'x' }, 'note'],
    [(options) => one.result(options), { sginal: 1 }, 'signal'],
    [(options) => gathered(one.watch(options)), { sginal: 1 }, 'signal'],
    [(decision) => one.resolve({ action: 'retry', ...decision }), { sinse: 'x' }, 'since'],
  ];
  for (const [call, option, meant] of calls) {
    const invalid = { ...INVALID, message: expect.stringMatching(new RegExp(`known are .*${meant}`)) as string };
    await expect((async () => call(option))()).rejects.toMatchObject(invalid);
  }
});

test('a misspelt filter, and a misspelt setting of exports, is invalid', async () => {
  for (const list of [
    () => gathered(real.list({ projecId: 'p' } as JobFilter)),
    () => real.listPage({ projecId: 'p' } as JobFilter),
    () => gathered(real.queues({ projectid: 'p' } as JobFilter)),
  ]) {
    const invalid = { ...INVALID, message: expect.stringMatching(/known are .*projectId/) as string };
    await expect((async () => list())()).rejects.toMatchObject(invalid);
  }
  const misspelt: object = { ...RANGE, secondscan: false };
  await expect(real.exportVisitors(misspelt as typeof RANGE)).rejects.toMatchObject({ field: 'secondscan' });
  const nightly: object = { projectId: 'p', timezone: 'UTC' };
  await expect(real.scheduleExports(nightly as { projectId: string })).rejects.toMatchObject({
    field: 'timezone',
  });
});

test('a misspelt setting of a client is invalid before it connects', async () => {
  const { client } = real;
  const clients: [make: (settings: object) => unknown, setting: object, remedy: RegExp][] = [
    [(settings) => AgentJobs.connect(settings), { namespce: 'prod' }, /known are .*namespace/],
    [(settings) => AgentJobs.connect(settings), { adress: 'localhost' }, /known are .*address/],
    [(settings) => AgentJobs.connect(settings), { apiKey: 'k' }, /known are taskQueue, webUiUrl/],
    [(settings) => new AgentJobs({ client, ...settings }), { taskqueue: 'q' }, /known are .*taskQueue/],
    [(settings) => new AgentJobs({ client, ...settings }), { namespace: 'prod' }, /known are taskQueue, webUiUrl/],
  ];
  for (const [make, setting, remedy] of clients) {
    const invalid = { ...INVALID, field: Object.keys(setting)[0], message: expect.stringMatching(remedy) as string };
    await expect((async () => make(setting))()).rejects.toMatchObject(invalid);
  }
});
