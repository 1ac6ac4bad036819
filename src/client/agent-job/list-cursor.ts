/** Where a page of a list ended, as callers carry it: bound to the filter that it belongs to. */
import { createHash } from 'node:crypto';
import { InvalidInputError } from '../../contract/input-checks.js';
import type { ListPlace } from './job-list.js';
import { jobQuery, type JobFilter } from './job-query.js';

const CHECK_DIGITS = 16;

/** The place as text. */
export function toCursor(filter: JobFilter, { token, beganAt, head }: ListPlace): string {
  const { isOpen, at } = head;
  const times = `${beganAt.toString(36)}.${isOpen ? 'o' : 'c'}.${at.toString(36)}`;
  const place = `${times}.${Buffer.from(token).toString('base64url')}`;
  const check = createHash('sha256')
    .update(`${jobQuery(filter)}\0${place}`)
    .digest('hex');
  return `${check.slice(0, CHECK_DIGITS)}.${place}`;
}

/** The place; throws InvalidInputError where the cursor is none, or belongs to another list. */
export function readCursor(filter: JobFilter, cursor: unknown): ListPlace {
  const [, began = '', kind, at = '', token = ''] = typeof cursor === 'string' ? cursor.split('.') : [];
  const place = {
    token: new Uint8Array(Buffer.from(token, 'base64url')),
    beganAt: Number.parseInt(began, 36),
    head: { isOpen: kind === 'o', at: Number.parseInt(at, 36) },
  };
  const isTime = !Number.isNaN(new Date(place.beganAt).getTime());
  if (isTime && place.token.length > 0 && cursor === toCursor(filter, place)) return place;
  throw new InvalidInputError(
    'cursor',
    'must be the nextCursor of a page of the same list: the filter must not change',
  );
}
