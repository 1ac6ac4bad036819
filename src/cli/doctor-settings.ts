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
    case 'fails':
      return { status: 'fail', text };
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

/** Whether the keys that encrypt payloads can be read, by whom they should be alone. */
export async function checkPayloadKeys(): Promise<Finding> {
  const { processEnvironment, payloadKeysWarnings } = await import('../config.js');
  const { readPayloadKeys } = await import('../config/payload-keys-setting.js');
  const path = processEnvironment['PAYLOAD_KEYS_FILE']?.trim();
  if (!path) return { status: 'skip', text: 'off: PAYLOAD_KEYS_FILE is not set here' };
  readPayloadKeys();
  const warnings = payloadKeysWarnings(path);
  if (warnings.length > 0) return { status: 'warn', text: 'others can read the keys', remedy: warnings };
  return { status: 'ok', text: 'PAYLOAD_KEYS_FILE has usable keys' };
}

/** Whether snapshots can be written, read and removed. */
export async function checkStore(flags: SnapshotsFlags): Promise<Finding> {
  const { processEnvironment } = await import('../config.js');
  if (!(flags.snapshots ?? processEnvironment['SNAPSHOTS_URL'])) {
    return { status: 'skip', text: 'not checked: SNAPSHOTS_URL is not set here' };
  }
  const store = await openSnapshots(flags);
  if (store.url.startsWith('file:') && !existsSync(fileURLToPath(store.url))) {
    return { status: 'warn', text: `${store.url} is not there yet: the first export makes it` };
  }
  await tryStore(store);
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
