/** Decides when one that waits for its turn asks its queue again, which may be gone. Pure; in milliseconds. */

/** The first of those that wait ask again after this time. */
const ASK_AGAIN_MS = 20 * 60_000;
/** The number of the first ones. Those behind ask less often: their turn is not near. */
const ASK_OFTEN = 100;
const MAX_ASK_AGAIN_MS = 6 * 3_600_000;
/** Those that began to wait at once ask at different moments: earlier by up to this share. */
const ASK_EARLIER_SHARE = 1 / 3;

/** How long one waits for its turn before it asks again, by its place: absent if the queue reported none. */
export function askAgainMs(position: number | undefined, random: number): number {
  const waitMs = Math.min(ASK_AGAIN_MS * Math.max(1, (position ?? 1) / ASK_OFTEN), MAX_ASK_AGAIN_MS);
  return Math.round(waitMs * (1 - ASK_EARLIER_SHARE * random));
}
