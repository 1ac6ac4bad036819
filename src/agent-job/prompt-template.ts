/**
 * The prompt of a recurring job, with the scheduled time in it: which placeholders there are, and what stands for a
 * brace. Pure and safe in workflow code.
 */
import { InvalidInputError } from '../contract/input-checks.js';
import { localDate, localTime } from '../contract/time-zones.js';

/** What a placeholder stands for, of a scheduled time in milliseconds since 1970 and the Schedule's time zone. */
const PLACEHOLDERS: Record<string, (time: number, timeZone: string) => string> = {
  date: localDate,
  time: localTime,
  timeZone: (_, timeZone) => timeZone,
  scheduledAt: (time) => new Date(time).toISOString(),
};

/** A doubled brace, a placeholder, or a lone brace, which is wrong. */
const PARTS = /\{\{|\}\}|\{([A-Za-z]+)\}|[{}]/g;
const RULE = 'write {{ and }} for a brace of your own';

/** The prompt of a scheduled time; throws InvalidInputError where a brace is no placeholder's. */
export function renderPrompt(template: string, time: number, timeZone: string): string {
  return template.replace(PARTS, (part: string, name: string | undefined, offset: number) => {
    if (part === '{{' || part === '}}') return part.charAt(0);
    if (name !== undefined && Object.hasOwn(PLACEHOLDERS, name)) return PLACEHOLDERS[name]!(time, timeZone);
    throw new InvalidInputError('prompt', problemOf(name, offset));
  });
}

/** Tells the place and not the text around it: a prompt may be confidential. */
function problemOf(name: string | undefined, offset: number): string {
  const place = `at character ${offset + 1}`;
  if (name === undefined) return `has a lone brace ${place}: ${RULE}`;
  const known = Object.keys(PLACEHOLDERS).map((placeholder) => `{${placeholder}}`);
  return `has an unknown placeholder ${place}; there are ${known.join(', ')}; ${RULE}`;
}
