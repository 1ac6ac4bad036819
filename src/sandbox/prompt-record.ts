import { createHash } from 'node:crypto';

/** A prompt as the books keep it: whole up to 4096 characters, else its beginning with the hash of the whole. */
export interface PromptRecord {
  prompt: string;
  promptBytes: number;
  /** Hex, only where `prompt` is cut. */
  promptSha256?: string;
}

const KEPT_CHARS = 4_096;

export function recordPrompt(prompt: string): PromptRecord {
  const promptBytes = Buffer.byteLength(prompt);
  if (prompt.length <= KEPT_CHARS) return { prompt, promptBytes };
  const promptSha256 = createHash('sha256').update(prompt).digest('hex');
  return { prompt: prompt.slice(0, KEPT_CHARS), promptBytes, promptSha256 };
}
