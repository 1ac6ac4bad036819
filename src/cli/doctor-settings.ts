/** The checks of `doctor` that ask no Temporal: the upstream, its keys, and the store of the snapshots. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import type { Finding } from './doctor-check.js';
import { openSnapshots, type SnapshotsFlags } from './snapshots-option.js';

const UPSTREAM_LIMIT_MS = 6_000;

/** Whether the upstream answers, and whether it takes the key: one read of a job that is nobody's tells both. */
export async function checkUpstreamAndKey(project: string | undefined): Promise<Finding & { key?: Finding }> {
  const { checkUpstream } = await import('../worker/upstream-check.js');
  const { finding, text } = await checkUpstream(project, UPSTREAM_LIMIT_MS);
  switch (finding) {
    case 'answers':
      return { status: 'ok', text, key: await keyFinding(project) };
    case 'keyRefused':
      return { status: 'ok', text: 'answers', key: { status: 'fail', text } };
    case 'notAsked':
      return { status: 'skip', text };
    case 'wrongSettings':
      return { status: 'fail', text };
    case 'fails':
      return { status: 'fail', text, remedy: ['check UPSTREAM_BASE_URL, the network and the proxy settings'] };
  }
}

/** A key that works may still lie open. */
async function keyFinding(project: string | undefined): Promise<Finding> {
  const { readUpstreamConfig, upstreamWarnings } = await import('../config.js');
  const warnings = upstreamWarnings(readUpstreamConfig());
  const text = `the upstream takes the key${project === undefined ? '' : ` of project ${JSON.stringify(project)}`}`;
  if (warnings.length === 0) return { status: 'ok', text };
  return { status: 'warn', text: `${text}, which others can read`, remedy: warnings };
}

/** Whether snapshots can be written, read and removed. */
export async function checkStore(flags: SnapshotsFlags): Promise<Finding> {
  const { processEnvironment } = await import('../config.js');
  if (!(flags.snapshots ?? processEnvironment['SNAPSHOTS_URL'])) {
    return { status: 'skip', text: 'not checked: SNAPSHOTS_URL is not set here' };
  }
  const store = await openSnapshots(flags);
  if (store.url.startsWith('file:') && !existsSync(fileURLToPath(store.url))) {
    return {
      status: 'warn',
      text: `${store.url} is not there yet`,
      remedy: ['check the path; the first export makes it'],
    };
  }
  try {
    await tryStore(store);
  } catch (error) {
    const remedy = ['check SNAPSHOTS_URL, the rights to write and remove there, and for S3 the AWS_* settings'];
    return { status: 'fail', text: (error as Error).message, remedy };
  }
  return { status: 'ok', text: `${store.url} can be written and read` };
}

/** Outside of what is published. */
async function tryStore(store: SnapshotStore): Promise<void> {
  const { STAGING } = await import('../snapshots/layout.js');
  const folder = `${STAGING}/doctor-${randomUUID()}`;
  const key = `${folder}/probe`;
  const probe = Buffer.from(key);
  await store.put(key, probe);
  const read = await store.read(key);
  await store.removeFolder(folder);
  if (!read?.equals(probe)) throw new Error(`${store.urlOf(key)} is not read as it was written`);
}
