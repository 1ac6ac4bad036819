/** JSON Schema with the keywords of the contract's own, written down without the parsers. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import ms from 'ms';

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isDate(text: string): boolean {
  const [year = 0, month = 0, day = 0] = text.split('-').map(Number);
  const isLeapYear = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return day >= 1 && day <= (DAYS[month - 1] ?? 0) + (month === 2 && isLeapYear ? 1 : 0);
}

function isTime(text: string): boolean {
  return Number.isFinite(Date.parse(text));
}

function isTimeZone(name: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: name }));
  } catch {
    return false;
  }
}

function encodedBytes(text: string): number {
  const sizes = [...Buffer.from(text)].map((byte) => (/[\w.~-]/.test(String.fromCharCode(byte)) ? 1 : 3));
  return sizes.reduce((sum: number, size) => sum + size, 0);
}

type Fields = Record<string, unknown>;
/** NaN if a text is no duration. */
function millis(value: unknown): number {
  if (typeof value === 'number') return value;
  const isLegal = typeof value === 'string' && value.trim() !== '' && value.length <= 100;
  return (isLegal ? (ms(value.trim() as ms.StringValue) as number | undefined) : undefined) ?? NaN;
}

/** What `x-rule` says in words. Of a value that is wrong in itself the other keywords say so. */
const RULES: Record<string, (value: never) => boolean> = {
  'min is not above max': ({ min, max }: Fields) =>
    min == null || max == null || Math.round(millis(min)) <= Math.round(millis(max)),
  'dateTo is later than dateFrom': ({ dateFrom, dateTo }: Fields) =>
    typeof dateFrom === 'string' && typeof dateTo === 'string' && dateTo > dateFrom,
};

/** A validator of the standard alone, or of the contract's own keywords too. */
export function newValidator({ isStandard }: { isStandard: boolean }): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    formats: { date: isStandard ? true : isDate, 'date-time': isStandard ? true : isTime },
  });
  if (isStandard) return ajv;
  const ofText = (keyword: string, validate: (limit: never, text: string) => boolean): void =>
    void ajv.addKeyword({ keyword, type: 'string', validate: validate as (...args: unknown[]) => boolean });
  ofText('x-well-formed', (_: true, text) => text.isWellFormed());
  ofText('x-max-utf8-bytes', (most: number, text) => Buffer.byteLength(text) <= most);
  ajv.addKeyword({
    keyword: 'x-max-json-bytes',
    type: ['string', 'object'],
    validate: (most: number, value: unknown) => Buffer.byteLength(JSON.stringify(value)) <= most,
  });
  ofText('x-max-encoded-bytes', (most: number, text) => encodedBytes(text) <= most);
  ofText('x-max-duration-ms', (most: number, text) => millis(text) <= most);
  ofText('x-format', (_: string, text) => isTimeZone(text));
  const validate = (rule: string, value: unknown): boolean => value === null || RULES[rule]!(value as never);
  ajv.addKeyword({ keyword: 'x-rule', validate });
  return ajv;
}
