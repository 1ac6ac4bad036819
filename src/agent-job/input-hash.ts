import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';

/** What makes two starts the same job: the project, and its prompt or the job it attaches to; options do not count. */
interface HashedInput {
  projectId: string;
  prompt?: string | null | undefined;
  jobId?: string | null | undefined;
}

/**
 * The memo `inputHash`: lower-case hex SHA-256 of the UTF-8 bytes of projectId, NUL, `prompt` or `jobId`, NUL, and its
 * value. A project id has no control characters, so no two inputs share these bytes. Safe in workflow code.
 */
export function inputHash(input: HashedInput): string {
  const [field, value] = typeof input.prompt === 'string' ? ['prompt', input.prompt] : ['jobId', input.jobId ?? ''];
  return bytesToHex(sha256(new TextEncoder().encode(`${input.projectId}\0${field}\0${value}`)));
}
