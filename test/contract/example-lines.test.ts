import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGE = readFileSync(`${ROOT}docs/languages.md`, 'utf8');

/** All lines of the example in a language, which a test of its own runs. */
function exampleLines(language: string): Set<string> {
  const folder = `${ROOT}examples/${language}/`;
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const sources = files.filter((file) => /\.(py|go|java)$/.test(file));
  return new Set(
    sources.flatMap((file) =>
      readFileSync(folder + file, 'utf8')
        .split('\n')
        .map((line) => line.trim()),
    ),
  );
}

test.each(['python', 'go', 'java'])('the page shows only lines of the tested example in %s', (language) => {
  const code = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(PAGE)?.[1] ?? '';
  const shown = code.trim().split('\n');
  expect(shown.length).toBeGreaterThan(3);
  const known = exampleLines(language);
  expect(shown.filter((line) => !known.has(line.trim()))).toEqual([]);
});
