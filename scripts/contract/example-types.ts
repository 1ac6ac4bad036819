/** The types of the examples in other languages, written from the shapes of the schemas. */
import type { JsonSchema } from '../../src/contract/kinds.js';
import { readShapes, type Base, type Field, type Shape } from './caller-shapes.js';

const ORIGIN = 'Written from docs/contract/agent-jobs.schema.json by npm run docs:contract.';
/** What a comment's sign leaves of 120 columns. */
const COLUMNS = 112;
const MAX_LINE = 120;

/** The files, by their path from the root of the repository. */
export function exampleTypes(schema: { readonly $defs: Readonly<Record<string, JsonSchema>> }): Record<string, string> {
  const shapes = readShapes(schema.$defs);
  return {
    'examples/python/agent_job_types.py': python(shapes),
    'examples/go/types.go': go(shapes),
    'examples/java/src/main/java/agentjobs/Types.java': java(shapes),
  };
}

/** Lines of a comment. */
function comment(text: string, sign: string): string {
  if (text === '') return '';
  const lines = text.split(' ').reduce<string[]>((done, word) => {
    const longer = `${done.at(-1)} ${word}`;
    return done.length > 0 && longer.length <= COLUMNS ? done.with(-1, longer) : [...done, word];
  }, []);
  return lines.map((line) => `${sign} ${line}\n`).join('');
}

function python(shapes: Shape[]): string {
  const bases = { text: 'str', whole: 'int', number: 'float', truth: 'bool', any: 'float | str' };
  const nameOf = (base: Base): string => {
    if (typeof base === 'string') return bases[base];
    if ('recordOf' in base) return `dict[str, ${nameOf(base.recordOf)}]`;
    return 'shape' in base ? base.shape : `list[${nameOf(base.listOf)}]`;
  };
  const typeOf = ({ base, words, isNullable, isRequired }: Field): string => {
    const literal = `Literal[${words.map((word) => `"${word}"`).join(', ')}]`;
    const known = words.length > 0 ? literal : nameOf(base);
    const type = isNullable ? `${known} | None` : known;
    return isRequired ? type : `NotRequired[${type}]`;
  };
  const declare = ({ name, description, fields }: Shape): string => {
    const about = comment(description, '#');
    const lines = fields.map((field) => brokenLine(`        "${field.name}": ${typeOf(field)},\n`)).join('');
    return `${about}${name} = TypedDict(\n    "${name}",\n    {\n${lines}    },\n)\n`;
  };
  const imports = 'from typing import Literal\n\nfrom typing_extensions import NotRequired, TypedDict\n';
  return `"""${ORIGIN}"""\n\n${imports}\n${shapes.map(declare).join('\n')}`;
}

/** The words of a line that is too long stand below each other. */
function brokenLine(line: string): string {
  if (line.length <= MAX_LINE) return line;
  const indent = ' '.repeat(8);
  return line
    .replace(
      /\[(.*)\]/,
      (_, words: string) => `[\n${words.replace(/^|, /g, `$&${indent}    `).replace(/, /g, ',\n')},\n${indent}]`,
    )
    .replace(' | None', `\n${indent}| None`);
}

function capital(name: string): string {
  return name[0]!.toUpperCase() + name.slice(1);
}

function go(shapes: Shape[]): string {
  const bases = { text: 'string', whole: 'int', number: 'float64', truth: 'bool', any: 'any' };
  const nameOf = (base: Base): string => {
    if (typeof base === 'string') return bases[base];
    if ('recordOf' in base) return `map[string]${nameOf(base.recordOf)}`;
    return 'shape' in base ? base.shape : `[]${nameOf(base.listOf)}`;
  };
  const typeOf = ({ base, isNullable, isRequired }: Field): string => {
    const isEmptyAbsent = base === 'text' || base === 'any' || (typeof base === 'object' && !('shape' in base));
    const isPointer = isRequired ? isNullable && base !== 'any' : !isEmptyAbsent;
    return `${isPointer ? '*' : ''}${nameOf(base)}`;
  };
  const declare = ({ name, description, fields }: Shape): string => {
    const rows = fields.map((field) => [capital(field.name), typeOf(field), field] as const);
    const width = (column: 0 | 1) => Math.max(...rows.map((row) => row[column].length));
    const lines = rows.map(([own, type, field]) => {
      const tag = `\`json:"${field.name}${field.isRequired ? '' : ',omitempty'}"\``;
      return `\t${own.padEnd(width(0))} ${type.padEnd(width(1))} ${tag}\n`;
    });
    const about = description === '' ? '' : comment(`${name}: ${description}`, '//');
    return `${about}type ${name} struct {\n${lines.join('')}}\n`;
  };
  return `package agentjobs\n\n// ${ORIGIN}\n\n${shapes.map(declare).join('\n')}`;
}

function java(shapes: Shape[]): string {
  const bases = { text: 'String', whole: 'Integer', number: 'Double', truth: 'Boolean', any: 'Object' };
  const nameOf = (base: Base): string => {
    if (typeof base === 'string') return bases[base];
    if ('recordOf' in base) return `Map<String, ${nameOf(base.recordOf)}>`;
    return 'shape' in base ? base.shape : `List<${nameOf(base.listOf)}>`;
  };
  // The one name that is a word of the language.
  const declareField = ({ name, base }: Field): string =>
    name === 'for' ? `@JsonProperty("for") ${nameOf(base)} reasonToWait` : `${nameOf(base)} ${name}`;
  // A caller writes these: with what is required alone, the rest is null.
  const shortConstructor = (name: string, fields: Field[]): string => {
    const required = fields.filter(({ isRequired }) => isRequired).map(declareField);
    const given = fields.map((field) => (field.isRequired ? field.name : 'null'));
    return `    public ${name}(${required.join(', ')}) {\n      this(${given.join(', ')});\n    }\n`;
  };
  const declare = ({ name, description, fields }: Shape): string => {
    const parameters = fields.map((field) => `      ${declareField(field)}`).join(',\n');
    const about = description === '' ? '' : `  /**\n${comment(description, '   *')}   */\n`;
    const body = name.endsWith('Input') ? `{\n${shortConstructor(name, fields)}  }` : '{}';
    return `${about}  record ${name}(\n${parameters}) ${body}\n`;
  };
  const imports =
    'import com.fasterxml.jackson.annotation.JsonProperty;\nimport java.util.List;\nimport java.util.Map;\n';
  const about = `/** ${ORIGIN} */\npublic interface Types {\n`;
  return `package agentjobs;\n\n${imports}\n${about}${shapes.map(declare).join('\n')}}\n`;
}
