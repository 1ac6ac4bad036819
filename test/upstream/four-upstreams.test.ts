/** The upstreams that tests run against answer in one way, that of the client over the wire. */
import { onTestFinished, expect, test } from 'vitest';
import { startSandbox } from '../../src/testing.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { createKeySource } from '../../src/upstream/keys.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { modelledUpstream } from '../model/modelled-upstream.js';
import type { ReadAnswer, Scenario } from '../model/scenario.js';
import { throttled, unauthorized } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { clientOf, http, RawUpstream, rejectionOf } from './raw-upstream.js';

/** Each is made for the one story below: what it answers to the writes, and to the reads, in turn. */
const UPSTREAMS: Record<string, () => Promise<Upstream>> = {
  async 'the wire'() {
    const [job, done] = [
      { id: 'job-1', status: 'active' },
      { id: 'job-1', status: 'completed' },
    ];
    const answers = [http(401, {}), http(429, {}, { 'retry-after': '7' }), http(201, job), http(200, job)];
    const reads = [http(500, {}), http(404, {}), http(200, done)];
    const raw = await RawUpstream.onRequest(({ line }) => (line.startsWith('GET') ? reads : answers).shift());
    return clientOf(raw.url);
  },
  async 'the sandbox'() {
    const sandbox = await startSandbox({ script: { activeMs: 0 } });
    onTestFinished(() => sandbox.close());
    const fault = { kind: 'status', effect: 'before', count: 1 } as const;
    await sandbox.addFault({ ...fault, status: 401, promptIncludes: 'first' });
    await sandbox.addFault({ ...fault, status: 429, retryAfter: 7, promptIncludes: 'second' });
    await sandbox.addFault({ ...fault, status: 500, operation: 'get' });
    return clientOf(sandbox.url, { keys: createKeySource({ adminApiKey: sandbox.apiKey }) });
  },
  'a script'() {
    const scripted = new ScriptedUpstream();
    scripted.createFaults.push(unauthorized('401'), throttled('429', 7_000));
    scripted.readFaults.push(new ReadFailedError('500', 500), new RejectedError('404', 404, ''));
    return Promise.resolve(scripted);
  },
  'a scenario of the model'() {
    const write = { takesMs: 0 };
    const read = (kind: ReadAnswer['kind']) => ({ kind, takesMs: 0, times: 1 });
    const refused = [
      { kind: 'unauthorized', ...write },
      { kind: 'throttled', retryAfterMs: 7_000, ...write },
    ];
    const creates = [...refused, { kind: 'accepted', ...write }, { kind: 'accepted', ...write }];
    const reads = [read('broken'), read('notFound')];
    const rest = { messages: [], readsAfterMessages: [[read('completed')]], furtherEnds: {}, finalRead: 'completed' };
    const events = { sendBegan() {}, sendAnswered() {}, readBegan: () => 0, readEnded() {} };
    const host = { ...events, wait: () => Promise.resolve(), die() {} };
    return Promise.resolve(modelledUpstream({ creates, reads, ...rest } as unknown as Scenario, host));
  },
};

test.each(Object.entries(UPSTREAMS))('%s tells the story of a job as the others do', async (_, open) => {
  const upstream = await open();
  const create = (prompt: string, mayFinish = true) => {
    let asked = 0;
    const beforeLastByte = () => Promise.resolve(() => (asked++, mayFinish));
    return upstream.createJob({ projectId: 'p', prompt }, { beforeLastByte }).then((outcome) => ({ outcome, asked }));
  };
  const refused = { kind: 'unauthorized', reason: expect.any(String) as string };
  expect((await create('first')).outcome).toEqual(refused);
  const later = { kind: 'throttled', reason: expect.any(String) as string, retryAfterMs: 7_000 };
  expect((await create('second')).outcome).toEqual(later);
  const tooLate = { kind: 'notDelivered', reason: expect.stringContaining('it was too late to send it') as string };
  expect(await create('third', false)).toEqual({ outcome: tooLate, asked: 1 });

  const { outcome, asked } = await create('fourth');
  if (outcome.kind !== 'accepted' || outcome.job === null) throw new Error('not accepted');
  const { jobId, job } = outcome;
  const fields = ['archivedAt', 'createdAt', 'id', 'model', 'prLink', 'source', 'status'];
  expect([Object.keys(outcome).toSorted(), Object.keys(job).toSorted(), asked, job.id]).toEqual([
    ['end', 'job', 'jobId', 'kind'],
    fields,
    1,
    jobId,
  ]);
  const ids = { projectId: 'p', jobId };
  expect(await rejectionOf(upstream.getJob(ids))).toMatchObject({ name: ReadFailedError.name, status: 500 });
  const missing = await rejectionOf(upstream.getJob({ ...ids, jobId: 'no-such-job' }));
  expect(missing).toMatchObject({ name: RejectedError.name, status: 404 });
  expect(await upstream.sendMessage({ ...ids, prompt: 'more' })).toMatchObject({ kind: 'accepted', jobId });
  await expect.poll(() => upstream.getJob(ids)).toMatchObject({ end: 'completed', job: { status: 'completed' } });
  expect(await upstream.keyVersion('p')).toEqual(expect.any(String));
});
