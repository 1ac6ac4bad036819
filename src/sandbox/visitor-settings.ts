import * as z from 'zod';

const milliseconds = z.number().min(0);
const position = z.int().min(0);
const oddKind = z.enum(['null', 'negative', 'fraction', 'huge', 'text']);

const driftEventSchema = z.strictObject({
  /**
   * `swap`: a row is deleted, another is added at the end, the totals stay. `delete`: a row is deleted. `insert`: a row
   * is added at the front. `totals`: the totals grow. `rotate`: the first row becomes the last.
   */
  kind: z.enum(['swap', 'delete', 'insert', 'totals', 'rotate']),
  /** Happens right before the response to a page at this offset or later; default 1, so never before a first page. */
  atOffset: position.optional(),
  /** Which row goes, counted from 0; default 0. */
  index: position.optional(),
  /** How often it happens, once per page; default 1. */
  times: z.int().min(1).optional(),
});

/** A change of the data between two pages of one export. */
export type DriftEvent = z.input<typeof driftEventSchema>;

const entrySchema = z.strictObject({
  path: z.string(),
  human: z.unknown(),
  ai: z.unknown(),
  total: z.unknown(),
});

export const visitorSettingsSchema = z.strictObject({
  /** Rows of every date range; default 120. */
  rows: z.int().min(0).optional(),
  /** Other numbers for another seed; default 1. */
  seed: z.int().optional(),
  /** `plain` (default) paths are ASCII; `unicode` ones hold scripts, quotes, emoji and combining marks. */
  paths: z.enum(['plain', 'unicode']).optional(),
  /** The rows themselves, instead of generated ones; for every date range. */
  entries: z.array(entrySchema).optional(),
  /** The totals themselves, whatever they are. */
  totals: z.unknown().optional(),
  /** IANA name of the zone in which the upstream's days lie; default UTC. */
  timeZone: z.string().optional(),
  /** How long after the end of a date range rows and counts still arrive; default 0. */
  lateMs: milliseconds.optional(),
  /** While data arrive, they change in steps of this length; default one minute. */
  arrivalStepMs: z.number().positive().optional(),
  /** Rows with equal totals, in groups of this size, change places with each request. */
  shuffleTies: z.int().min(2).optional(),
  /** Every nth row has an odd count of this kind in `human`. */
  oddCounts: z.strictObject({ kind: oddKind, every: z.int().min(1) }).optional(),
  /** The row at this index carries the path of the row before it. */
  repeatedPathAt: z.int().min(1).optional(),
  /** `hasMore` never becomes false: past the end come empty pages, or the last row again and again. */
  endlessHasMore: z.enum(['empty', 'repeat']).optional(),
  /** A page that begins at or past this offset is empty and says `hasMore: true`, so often. */
  emptyPage: z.strictObject({ atOffset: position, times: z.int().min(1) }).optional(),
  /** At most so many rows a page, whatever the limit. */
  shortPages: z.int().min(1).optional(),
  drift: z.array(driftEventSchema).optional(),
});

/** What the visitor export shows; only numbers derived from seed, project and dates differ between date ranges. */
export type VisitorSettings = z.input<typeof visitorSettingsSchema>;

export type OddKind = z.infer<typeof oddKind>;
