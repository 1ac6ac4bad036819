/** The page for people: its three files, the words that they get, and what a browser may do with them. */
import { readFileSync } from 'node:fs';
import { textsOf, WORDS } from '../contract/words.js';
import type { Answer } from './request.js';

/** Nothing inline, nothing from elsewhere, no frame around it, and no text that becomes HTML. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const HEADERS = {
  'content-security-policy': POLICY,
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const;
/** Media types by path; that of the page itself is `/`, without its slash. */
const FILES = { '': 'text/html', '/page.js': 'text/javascript', '/page.css': 'text/css' } as const;

/** The answers by path. No navigation has a key: they hold nothing of a job. */
export function pageAnswers(needsKey: boolean): ReadonlyMap<string, Answer> {
  const { phases, waits, ends } = WORDS;
  const words = { phases: textsOf(phases), waits: textsOf(waits), ends: textsOf(ends) };
  const served = `const SERVED = ${JSON.stringify({ needsKey, words })};`;
  const answers = Object.entries(FILES).map(([path, type]): [string, Answer] => {
    const text = readFileSync(new URL(`page${path || '/index.html'}`, import.meta.url), 'utf8');
    const body = Buffer.from(text.replace('const SERVED = {};', () => served));
    return [path, { status: 200, body, headers: { ...HEADERS, 'content-type': `${type}; charset=utf-8` } }];
  });
  return new Map(answers);
}
