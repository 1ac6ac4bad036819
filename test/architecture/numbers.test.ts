/**
 * Numbers and settings that pages name are those of the code. Each sentence below is made of constants, and must stand
 * on its page: who changes the constant finds the page, and who changes the page finds the constant.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'rolldown/utils';
import { expect, test } from 'vitest';
import { LOST_AFTER, pollLeaseMs, renewEarlyMs } from '../../src/agent-job/poll-waits.js';
import { arrivedBy } from '../../src/agent-job/waits.js';
import { DAY_MS } from '../../src/contract/shared.js';
import { attributeType, DEFAULT_TASK_QUEUE, LIMIT, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { WEBHOOK_RETRY } from '../../src/contract/webhooks.js';
import { LIMITS } from '../../src/http/limits.js';
import { askAgainMs } from '../../src/request-queue/waits.js';
import { projectFiles } from '../support/project-files.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const read = (file: string): string => readFileSync(ROOT + file, 'utf8');
const flat = (text: string): string => text.replaceAll(/\s+/g, ' ');

interface Expression {
  type: string;
  value?: unknown;
  name?: string;
  operator?: string;
  left?: Expression;
  right?: Expression;
}

/** The declarations at the top of a file, by name. */
function declarations(file: string): Map<string, Expression> {
  const found = new Map<string, Expression>();
  for (const node of parseSync(file, read(file)).program.body) {
    const declared = node.type === 'ExportNamedDeclaration' ? node.declaration : node;
    if (declared?.type !== 'VariableDeclaration') continue;
    for (const { id, init } of declared.declarations) {
      if (id.type === 'Identifier' && init) found.set(id.name, init as unknown as Expression);
    }
  }
  return found;
}

/** A constant of a file: a number, or numbers that are added and multiplied. */
function constant(file: string, name: string): number {
  const declared = declarations(file);
  const shared = declarations('src/contract/shared.ts');
  const valueOf = (node: Expression | undefined): number => {
    if (node?.type === 'Literal') return Number(node.value);
    if (node?.type === 'Identifier') return valueOf(declared.get(node.name!) ?? shared.get(node.name!));
    if (node?.type !== 'BinaryExpression') throw new Error(`${name} of ${file} is no number`);
    const [left, right] = [valueOf(node.left), valueOf(node.right)];
    return node.operator === '*' ? left * right : left + right;
  };
  return valueOf(declared.get(name));
}

const WORDS = 'no one two three four five six seven eight nine ten eleven twelve'.split(' ');
const count = (value: number): string => value.toLocaleString('en-US');
const word = (value: number): string => WORDS[value] ?? count(value);
const seconds = (ms: number): string => count(ms / 1_000);
const minutes = (ms: number): string => count(ms / 60_000);
const hours = (ms: number): string => count(ms / 3_600_000);
const kib = (bytes: number): string => count(bytes / 1_024);
const mib = (bytes: number): string => count(bytes / 1_024 ** 2);

const YOUNG = constant('src/agent-job/poll-waits.ts', 'YOUNG_WAIT_MS');
const POLLS = constant('src/agent-job/poll-waits.ts', 'POLLS_PER_BATCH');
const [SHORT, LONG] = [pollLeaseMs(YOUNG - 1), pollLeaseMs(YOUNG)];
const renewed = (leaseMs: number): string => seconds(leaseMs - renewEarlyMs(leaseMs));
const waits = (name: string): number => constant('src/agent-job/waits.ts', name);
const budget = (name: string): number => constant('src/request-queue/budget.ts', name);
const gate = (name: string): number => constant('src/activities/agent-job/gate.ts', name);
const [ASK_MIN, ASK_MAX] = [Math.floor(askAgainMs(1, 1) / 60_000), hours(askAgainMs(Infinity, 0))];
const { unreadMs, silentMs, requests, connections, answerBytes } = LIMITS;

/** All waits between the tries of a delivery. */
function webhookWaitsMs(): number {
  const { initialInterval, backoffCoefficient, maximumInterval, maximumAttempts } = WEBHOOK_RETRY;
  const waitMs = (_: unknown, i: number) => Math.min(initialInterval * backoffCoefficient ** i, maximumInterval);
  return Array.from({ length: maximumAttempts - 1 }, waitMs).reduce((sum, ms) => sum + ms, 0);
}

const SAID: Record<string, string[]> = {
  'docs/architecture.md': [
    `polls a job up to ${POLLS} times`,
    `${seconds(SHORT)} s at waits under ${seconds(YOUNG)} s, renewed every ${renewed(SHORT)} s`,
    `${seconds(LONG)} s at longer waits, renewed every ${renewed(LONG)} s`,
    `each of the first ${word(LOST_AFTER.count)} answers 404`,
    `after ${POLLS} polls`,
    `at most every ${word(constant('src/agent-job/poll-waits.ts', 'TROUBLE_REPORTED_EVERY_MS') / 60_000)} minutes`,
    `after ${word(constant('src/agent-job/poll-waits.ts', 'MIN_POLLS_PER_LEASE'))} polls or more`,
    `doubles the wait up to ${word(waits('MAX_FAILING_WAIT_MS') / 60_000)} minutes`,
  ],
  'docs/contract.md': [
    `of at most ${kib(LIMIT.promptBytes)} KiB`,
    `up to ${LIMIT.batchBytes} bytes`,
    `up to ${LIMIT.tags} of ${LIMIT.tagBytes} bytes`,
    `up to ${kib(LIMIT.metadataJsonBytes)} KiB as JSON`,
    `at most ${LIMIT.prLinks}.`,
    `(up to ${LIMIT.followUpIdBytes} bytes, well-formed)`,
    `A job takes ${count(LIMIT.followUpsPerJob)} follow-ups, and ${mib(LIMIT.waitingPromptsJsonBytes)} MiB of waiting`,
    `list the last ${LIMIT.listedDecisions} \`decisions\``,
    `1 to ${LIMIT.idBytes} bytes when percent-encoded`,
    `at most ${LIMIT.workflowIdCharacters} characters`,
    `\`retry\` sends at most ${constant('src/workflows/agent-job/write-transitions.ts', 'MAX_SENDS')} times`,
    `if ${word(constant('src/workflows/agent-job/handlers.ts', 'MAX_WAITING_UPDATES'))} others wait already`,
    `at least ${LOST_AFTER.count} polls in a row over at least a minute`,
    `after ${constant('src/agent-job/ends.ts', 'MAX_UNREST')} × \`settle\``,
    `at most ${seconds(constant('src/client/agent-job/start-or-join.ts', 'START_WITHIN_MS'))} seconds after you read`,
    `of up to ${constant('src/client/agent-job/start-or-join.ts', 'MAX_ATTACHED_REQUEST_IDS')} runs`,
    `more than ${minutes(constant('src/activities/agent-job/read-job.ts', 'CLOCK_TOLERANCE_MS'))} minutes older`,
    `(\`AGENT_JOBS_TASK_QUEUE\` of the worker and our client)`,
    `Task queue: \`${DEFAULT_TASK_QUEUE}\``,
  ],
  'docs/guarantees.md': [
    `at most ${seconds(constant('src/upstream/client.ts', 'MAX_TIMEOUT_MS'))} s, covers the whole exchange`,
    `After ${seconds(constant('src/activities/agent-job/write-fence.ts', 'MAX_SEND_DELAY_MS'))} s from its first mark`,
    `${seconds(arrivedBy('ownEnd', 0))} s after a worker judged the write`,
    `${minutes(arrivedBy('lostWorker', 0))} minutes after a lost attempt was noticed`,
    `after ${seconds(gate('WAIT_HERE_MS'))} s the server keeps the wait`,
    `or ${seconds(budget('FIRST_CLOSED_MS'))} s doubling to ${minutes(budget('MAX_CLOSED_MS'))} min`,
    `asks again in ${ASK_MIN} min to ${ASK_MAX} h, by its place`,
    `or ${seconds(waits('FIRST_WAIT_THROTTLED_MS'))} s doubling to ${minutes(waits('MAX_FAILING_WAIT_MS'))} min`,
    `${seconds(waits('FIRST_WAIT_NOT_DELIVERED_MS'))} s doubling to ${minutes(waits('MAX_FAILING_WAIT_MS'))} min`,
    `with at most ${word(gate('MAX_SENDING') - 1)} others`,
  ],
  'docs/operations.md': [
    `Default \`${DEFAULT_TASK_QUEUE}\``,
    `Default and maximum \`${seconds(constant('src/upstream/client.ts', 'MAX_TIMEOUT_MS'))} seconds\``,
    `at most the ${budget('MAX_IN_FLIGHT')} writes in flight`,
    `Up to ${gate('MAX_SENDING')} writes of a project and kind leave at a time`,
    `with \`unlimited\` up to ${gate('MAX_SENDING_UNLIMITED')}`,
    `for ${seconds(budget('FIRST_CLOSED_MS'))} seconds, doubling up to ${minutes(budget('MAX_CLOSED_MS'))} minutes`,
    `After ${budget('MAX_THROTTLED_TURNS')} such answers in an hour`,
    `The first ${constant('src/request-queue/waits.ts', 'ASK_OFTEN')} jobs in line ask again every ${ASK_MIN} to`,
    `for ${word(constant('src/exports/range-transitions.ts', 'TURNS_IN_A_ROW_MS') / 3_600_000)} hours of turns`,
  ],
  'docs/exports.md': [
    `A page has ${constant('src/exports/scan-checkpoint.ts', 'PAGE_ROWS')} rows`,
    `more than ${word(constant('src/exports/snapshots/scan.ts', 'MAX_BARREN_PAGES'))} in a row without a new one`,
    `within ${hours(constant('src/workflows/visitor-export/visitor-export.ts', 'MAKE_UP_MS'))} hours of its nominal`,
    `did not respond for ${minutes(constant('src/exports/range-transitions.ts', 'MAX_STORE_FAILURE_MS'))} minutes`,
    `After ${word(constant('src/exports/scan-checkpoint.ts', 'MAX_IN_DOUBT'))} such days`,
    `is repeated at most ${['', 'once', 'twice'][constant('src/exports/range-transitions.ts', 'MAX_REPEATS')]}`,
    `the last ${constant('src/exports/report/figures.ts', 'REPORT_DAYS')} days`,
    `the ${constant('src/exports/report/top-pages.ts', 'SHOWN')} pages with the most visitors`,
  ],
  'docs/http.md': [
    `over ${count(requests)} requests of a key in ten seconds, or ${count(connections)} connections`,
    `JSON of over ${constant('src/http/limits.ts', 'MAX_DEPTH')} levels`,
    `${count(constant('src/http/limits.ts', 'MAX_VALUES'))} values`,
    `a body over ${mib(constant('src/http/request.ts', 'MAX_BODY_BYTES'))} MiB`,
    `${mib(answerBytes)} of all`,
    `It takes ${count(constant('src/http/server.ts', 'MAX_CONNECTIONS'))} connections`,
    `not read for ${seconds(unreadMs)} seconds (a stream: ${seconds(silentMs)}`,
    `Default ${seconds(constant('src/http/server.ts', 'KEEP_ALIVE_MS'))} seconds`,
    `within ${seconds(constant('src/http/server.ts', 'DRAIN_MS'))} seconds of SIGTERM`,
    `\`limit\`, ${constant('src/operations/arguments.ts', 'MAX_PAGE')} at most`,
    `${seconds(constant('src/http/mcp.ts', 'DEFAULT_WAIT_MS'))} seconds at most`,
    `of at most ${kib(constant('src/activities/webhooks/events.ts', 'MAX_EVENT_BYTES'))} KiB`,
    `at most ${constant('src/activities/webhooks/events.ts', 'MAX_SNAPSHOTS')} snapshots`,
    `A 2xx within ${seconds(constant('src/activities/webhooks/post.ts', 'TRY_LIMIT_MS'))} seconds is delivery`,
    `the waits are ${seconds(WEBHOOK_RETRY.initialInterval)} seconds, 90 seconds`,
    `by ${word(WEBHOOK_RETRY.backoffCoefficient)}, up to a day: ${word(WEBHOOK_RETRY.maximumAttempts)} tries`,
    `tries in about ${word(Math.round(webhookWaitsMs() / DAY_MS))} days`,
    `\`secrets\` are 1 to ${constant('src/activities/webhooks/endpoints.ts', 'MAX_SECRETS')}`,
    `at most ${constant('src/worker/workers.ts', 'MAX_WEBHOOK_ACTIVITIES')} requests open`,
  ],
  'docs/client.md': [
    `${seconds(constant('src/client/connection.ts', 'CONNECT_TIMEOUT_MS'))} seconds for \`connect\``,
    `${seconds(constant('src/client/temporal-call.ts', 'CALL_TIMEOUT_MS'))} for a request`,
    `${seconds(constant('src/client/temporal-call.ts', 'START_TIMEOUT_MS'))} for \`state\``,
    `${seconds(constant('src/client/agent-job/follow-up.ts', 'DELIVERY_TIMEOUT_MS'))} for \`sendFollowUp\``,
    `and ${seconds(constant('src/client/agent-job/handle.ts', 'ADOPT_TIMEOUT_MS'))} for \`adopt\``,
  ],
  'docs/commands.md': [
    `tried for ${minutes(constant('src/client/agent-job/start-many.ts', 'OUTAGE_LIMIT_MS'))} minutes while Temporal`,
    `or over ${mib(constant('src/cli/input.ts', 'MAX_LINE_BYTES'))} MiB`,
  ],
  'docs/sandbox.md': [
    `active for \`activeMs\` (${seconds(constant('src/sandbox/jobs.ts', 'DEFAULT_ACTIVE_MS'))} seconds)`,
    `after \`messageLagMs\` (${constant('src/sandbox/jobs.ts', 'DEFAULT_MESSAGE_LAG_MS')})`,
    `\`rows\` per date range (${constant('src/sandbox/visitors.ts', 'DEFAULT_ROWS')})`,
    `first ${constant('src/sandbox/jobs.ts', 'MAX_PROMPT_CHARS')} characters`,
  ],
};

test.each(Object.entries(SAID))('the numbers of %s are those of the code', (page, sentences) => {
  const text = flat(read(page));
  expect(sentences.filter((sentence) => !text.includes(sentence))).toEqual([]);
});

test('a constant is found, however it is written', () => {
  expect(constant('src/contract/shared.ts', 'DAY_MS')).toBe(86_400_000);
  expect(constant('src/exports/range-transitions.ts', 'TURNS_IN_A_ROW_MS')).toBe(7_200_000);
  expect(() => constant('src/contract/shared.ts', 'LIMIT')).toThrow('is no number');
});

test('each setting that a page names is one that a program reads', () => {
  const files = projectFiles();
  const isProgram = (file: string) => /\.(?:m?[jt]s|py|ya?ml|sh)$|Dockerfile|\.env/.test(file);
  const programs = files.filter((file) => isProgram(file) && !file.startsWith('test/architecture/'));
  const known = new Set(programs.flatMap((file) => read(file).match(/\b[A-Z][A-Z\d]*(?:_[A-Z\d]+)+\b/g) ?? []));
  // The AWS SDK reads its own.
  const isOthers = (name: string) => name.startsWith('AWS_');
  const named = files
    .filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md')
    .flatMap((file) =>
      [...read(file).matchAll(/`([A-Z][A-Z\d]*(?:_[A-Z\d]+)+)(?:=[^`]*)?`/g)].map(([, name]) => name!),
    );
  expect(named.length).toBeGreaterThan(100);
  expect(named.filter((name) => !isOthers(name) && !known.has(name))).toEqual([]);
});

test('the script of the Compose file registers the search attributes of the contract, and its page names them', () => {
  const script = read('deploy/temporal/setup-namespace.sh');
  const names = Object.values(SEARCH_ATTRIBUTE);
  expect([...new Set(script.match(/AgentJob\w+/g))].toSorted()).toEqual(names.toSorted());
  const lists = [...script.matchAll(/(AgentJob\w+)\) type=KeywordList/g)].map(([, name]) => name);
  expect(lists).toEqual(names.filter((name) => attributeType(name) === 'KeywordList'));
  const page = /^- Search attributes[^]*?^- Memo/m.exec(read('docs/contract.md'))![0];
  expect([...new Set(page.match(/AgentJob\w+/g))].toSorted()).toEqual(names.toSorted());
});
