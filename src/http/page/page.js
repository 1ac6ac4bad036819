/** Lists the jobs of a project for people, shows one, and sends what they decide. It knows the HTTP API alone. */
// `serve` writes the words for people here, and whether callers need a key.
const SERVED = {};
const { words, needsKey } = SERVED;
const kept = sessionStorage;
const at = (id) => document.getElementById(id);

const REFRESH_MS = 10_000;
const SLOW_MS = 3_000;
/** For an answer, and between two parts of a stream: the server sends a comment each 10 seconds. */
const LIMIT_MS = 40_000;

let view = new AbortController();
let canWrite = false;
let rows = new Map();
let job = null;
/** The write that a person is asked about. A late answer to another changes nothing of it. */
let write = null;
/** How far the server's clock is ahead of this one. */
let aheadMs = 0;
/** The same text has the same id until the server has taken it: a second click sends nothing. */
let followUp = {};

/** A word of a newer release stays as it is. */
const inWords = (table, word) => (Object.hasOwn(table, word) ? table[word] : word);
/** Without control characters, and without what turns the direction of writing. */
const plain = (text) => String(text).replace(/[\p{Cc}\u2028\u2029\p{Bidi_Control}]+/gu, ' ');
const timeOf = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const jobPath = () => `v1/jobs/${location.hash.slice(1)}`;
const soon = (work) => Promise.race([work, new Promise((_, fail) => setTimeout(fail, LIMIT_MS, new Error('silent')))]);

/** Its children are elements or text: no text becomes HTML, or turns the direction of what follows. */
function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children.map((child) => (child instanceof Node ? child : plain(child))));
  return made;
}

/** A line for each, if there are any. */
const linesOf = (all) => all.length > 0 && element('div', {}, ...all.map((one) => element('div', {}, one)));

/** A link, if it leads to the web. */
function linkOf(url, text = url) {
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  return isWeb ? element('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, text) : url;
}

/** Replaces what has changed, and leaves the focus on its link. */
function fill(parent, children) {
  const fresh = element('div', {}, ...children);
  if (fresh.innerHTML === parent.innerHTML) return;
  const focused = parent.contains(document.activeElement) ? document.activeElement.href : null;
  parent.replaceChildren(...fresh.childNodes);
  [...parent.querySelectorAll('a')].find(({ href }) => href === focused)?.focus({ preventScroll: true });
}

async function call(path, options) {
  const headers = options.method ? { 'content-type': 'application/json' } : {};
  if (needsKey) headers.authorization = `Bearer ${kept.getItem('key')}`;
  const slow = setTimeout(() => tell(document.body.dataset.part, 'The server has not answered yet.'), SLOW_MS);
  const asked = soon(fetch(path, { credentials: 'omit', redirect: 'error', ...options, headers }));
  const response = await asked.finally(() => clearTimeout(slow));
  aheadMs = Date.parse(response.headers.get('date')) - Date.now() || 0;
  if (response.ok && !options.method) canWrite = !response.headers.has('allow');
  if (response.ok) return response;
  const { detail = 'something else than this server answers' } = await response.json().catch(() => ({}));
  const retryAfter = Number(response.headers.get('retry-after')) || 0;
  throw Object.assign(new Error(plain(detail)), { status: response.status, retryAfter });
}

const read = async (path, signal) => soon((await call(path, { signal })).json());

function sentenceOf(status, message) {
  if (status === 401) return 'This key is unknown. Enter another one.';
  if (status !== undefined) return `${message}.`;
  return 'The server does not answer. What you see may be old. It is asked again.';
}

/** Shows a part of the page, or none, and what is wrong. A job may be of another project than the list. */
function tell(part, sentence) {
  document.body.dataset.part = part;
  document.title = part === 'job' ? `${at('title').textContent} · Agent jobs` : 'Agent jobs';
  at('project').textContent = part === 'list' ? plain(kept.getItem('project')) : '';
  at('notice').textContent = sentence;
}

/** Shows what the address names, and does so again and again while the tab is seen. */
async function show(failures = 0) {
  view.abort();
  const { signal } = (view = new AbortController());
  if (kept.getItem('project') === null || (needsKey && kept.getItem('key') === null)) return tell('enter', '');
  if (document.hidden) return;
  const next = (waitMs, failed) => setTimeout(() => void (signal.aborted || show(failed)), waitMs);
  try {
    await (/^#[\w-]+$/.test(location.hash) ? followJob(signal) : showList(signal));
    next(REFRESH_MS, 0);
  } catch ({ status, message, retryAfter = 0 }) {
    if (signal.aborted) return;
    const isFinal = [401, 403, 404].includes(status);
    tell(isFinal && status !== 404 ? 'enter' : document.body.dataset.part, sentenceOf(status, message));
    if (!isFinal) next(1_000 * Math.max(Math.min(60, 2 ** failures), retryAfter), failures + 1);
  }
}

async function showList(signal) {
  const filters = ['phase', 'tag', 'batch'].map((name) => [name, at(name).value.trim()]).filter(([, value]) => value);
  const path = `v1/projects/${encodeURIComponent(kept.getItem('project'))}/jobs`;
  const found = new Map();
  const take = async (more) => {
    const query = new URLSearchParams([...filters, ['limit', 200], ...more]);
    const { jobs, nextCursor } = await read(`${path}?${query}`, signal);
    for (const one of jobs) if (!found.has(one.workflowId)) found.set(one.workflowId, one);
    return nextCursor;
  };
  let cursor = await take([]);
  for (let pages = 1; cursor !== null && pages < 5; pages += 1) cursor = await take([['cursor', cursor]]);
  // What needs a person is never left out. Ended jobs come last: without one there may be more that run.
  const mayRun = cursor !== null && [...found.values()].every(({ endedAt }) => endedAt === null);
  if (mayRun && !at('phase').value) await take([['phase', 'needsAttention']]);
  rows = found;
  const groups = Map.groupBy(rows.values(), groupOf);
  const parts = ['Need a person', 'Waiting', 'Running', 'Ended'].flatMap((name) => {
    const jobs = groups.get(name) ?? [];
    return jobs.length === 0
      ? []
      : [element('h2', {}, `${name} (${jobs.length})`), element('ul', {}, ...jobs.map(rowOf))];
  });
  if (rows.size === 0) parts.push(filters.length > 0 ? 'No job fits these filters.' : 'This project has no jobs yet.');
  if (cursor !== null) parts.push(`There are more than these ${rows.size}: filter them.`);
  fill(at('groups'), parts);
  tell('list', '');
}

function groupOf({ phase, waitingFor, endedAt }) {
  if (endedAt !== null) return 'Ended';
  if (phase === 'needsAttention' || waitingFor === 'person') return 'Need a person';
  return waitingFor === null ? 'Running' : 'Waiting';
}

function rowOf(one) {
  const { workflowId, outcome, phase, waitingFor, endedAt, startedAt, batch, tags, prLink } = one;
  const id = btoa(String.fromCharCode(...new TextEncoder().encode(workflowId)));
  const href = `#${id.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}`;
  const waits = waitingFor && `waits for ${inWords(words.waits, waitingFor)}`;
  const now = endedAt === null ? waits || inWords(words.phases, phase ?? '') : inWords(words.ends, outcome ?? '');
  const facts = [timeOf(endedAt ?? startedAt), batch, ...tags].filter(Boolean).join(' · ');
  const cells = [element('a', { href, dir: 'auto' }, titleOf(one)), element('span', {}, now)];
  const pullRequest = prLink === null ? '' : linkOf(prLink, 'Pull request');
  return element('li', {}, ...cells, element('small', {}, facts), element('span', {}, pullRequest));
}

function titleOf({ title, projectId, key, workflowId }) {
  return plain((title ?? '').replace(`${projectId}: `, '') || key || workflowId);
}

async function followJob(signal) {
  showJob(await read(jobPath(), signal));
  if (job.result !== null || job.failure !== null) return;
  const { body } = await call(`${jobPath()}/events`, { signal });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let text = '', part; !(part = await soon(reader.read())).done;) {
      const events = (text + part.value).split('\n\n');
      text = events.pop();
      for (const event of events) {
        const [, name, data] = /^event: (\w+)$[^]*^data: (.*)$/m.exec(event) ?? [];
        if (name === 'state') showJob({ ...job, state: JSON.parse(data) });
        if (name === 'result') showJob({ ...job, ...JSON.parse(data) });
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function showJob(shown) {
  job = shown;
  const { state, result, failure, workflowId, key, url } = job;
  const { phase, waiting, unknown, startedAt, prLinks = [], followUps = [], decisions = [] } = state ?? {};
  const outcome = result?.outcome ?? failure?.type ?? state?.outcome ?? null;
  at('title').textContent = titleOf(rows.get(workflowId) ?? { key, workflowId });
  const facts = {
    State: outcome === null ? inWords(words.phases, phase ?? 'not begun') : inWords(words.ends, outcome),
    'Waits for': waiting && waitingText(waiting),
    Why: result?.reason ?? failure?.message,
    'Upstream says': state?.job?.status,
    'Pull requests': linesOf(prLinks.map((link) => linkOf(link))),
    'Follow-ups': linesOf(followUps.map(({ id, state: now, error }) => `${id}: ${now}${error ? `, ${error}` : ''}`)),
    'Follow-up': state?.sawWork === false && 'no sign of work after the follow-up',
    Decided: linesOf(decisions.map(({ action, by, note }) => [action, by, note].filter(Boolean).join(', '))),
    Workflow: workflowId,
    Key: key,
    Started: startedAt && timeOf(startedAt),
    'Web UI': url && linkOf(url),
  };
  const lines = Object.entries(facts).filter(([, value]) => value);
  const cells = lines.flatMap(([label, value]) => [element('dt', {}, label), element('dd', { dir: 'auto' }, value)]);
  fill(at('facts'), cells);
  fill(at('doubt'), unknown ? [doubtText(unknown)] : []);
  showActions();
  tell('job', '');
}

function waitingText({ for: what, since, until, position, reason }) {
  const end = until && `${what === 'turn' ? 'expected' : 'until'} ${timeOf(until)}`;
  const start = `${inWords(words.waits, what)} since ${timeOf(since)}`;
  return [start, position && `position ${position}`, end, reason].filter(Boolean).join(', ');
}

function doubtText({ kind, followUpId, reason, since, lookAfter }) {
  const what = kind === 'create' ? 'the job was created' : `the follow-up ${followUpId} arrived`;
  const check = kind === 'create' ? 'is there a job with its prompt?' : 'does the job show this message?';
  const why = `It is unknown since ${timeOf(since)} whether ${what}: ${reason}.`;
  return `${why} From ${timeOf(lookAfter)} on check at the upstream: ${check} Then say what you found.`;
}

/** The writes that fit the state. Before `lookAfter` nothing is sent again. */
function showActions() {
  at('follow-up').hidden = !canWrite;
  const { unknown, jobId, phase = 'done' } = job.state ?? {};
  const decisions = [unknown?.kind === 'create' ? 'adopt' : 'delivered', 'retry', 'abandon'];
  const fitting = [...(unknown ? decisions : []), ...(jobId ? ['poll-now'] : []), 'cancel'];
  for (const button of at('actions').children) {
    button.hidden = !canWrite || phase === 'done' || !fitting.includes(button.value);
    button.disabled = button.value === 'retry' && unknown && Date.now() + aheadMs < Date.parse(unknown.lookAfter);
  }
}

/** Asks once more. A decision is about the write that is in doubt now, whatever comes while the question is open. */
function ask(name, { textContent, title }) {
  const isDecision = !['poll-now', 'cancel', 'follow-ups'].includes(name);
  const { since, followUpId } = job.state?.unknown ?? {};
  write = { path: `${jobPath()}/${isDecision ? 'resolve' : name}`, name, isDecision, since, followUpId };
  at('ask-title').textContent = `${textContent.replace(' …', '')}: ${at('title').textContent}`;
  at('ask-says').textContent = title;
  [at('ask-problem').textContent, at('ask-do').disabled] = ['', false];
  at('with-job').hidden = !(at('ask-job').required = name === 'adopt');
  for (const part of document.querySelectorAll('.decision')) part.hidden = !isDecision;
  at('ask').showModal();
}

async function send(_, sent = write) {
  at('ask-do').disabled = true;
  const { path, name, isDecision, since, followUpId } = sent;
  const [by, note, id] = ['by', 'note', 'job'].map((part) => at(`ask-${part}`).value.trim() || undefined);
  const decision = { action: name, since, followUpId, by, note, jobId: name === 'adopt' ? id : undefined };
  const body = isDecision ? decision : name === 'follow-ups' ? followUp : undefined;
  try {
    await call(path, { method: 'POST', body: JSON.stringify(body) });
    if (body === followUp && at('prompt').value === body.prompt) [followUp, at('prompt').value] = [{}, ''];
    if (write === sent) at('ask').close();
    void show();
  } catch ({ status, message }) {
    const unanswered = 'No answer came, and it may be done. Sent once more, it does nothing twice.';
    if (write === sent) at('ask-problem').textContent = status === undefined ? unanswered : message;
  }
  if (write === sent) at('ask-do').disabled = false;
}

/** No form goes anywhere by itself. */
function onSubmit(id, act) {
  at(id).addEventListener('submit', (event) => {
    event.preventDefault();
    act(event.submitter);
  });
}

onSubmit('enter', () => {
  kept.setItem('project', at('enter-project').value.trim());
  if (needsKey) kept.setItem('key', at('enter-key').value);
  void show();
});
onSubmit('follow-up', (button) => {
  const prompt = at('prompt').value;
  if (prompt !== followUp.prompt) followUp = { prompt, id: crypto.getRandomValues(new Uint32Array(4)).join('-') };
  ask('follow-ups', button);
});
onSubmit('ask-form', send);
// A key that is held down, and the second click of two, have asked: they answer nothing.
at('ask').addEventListener('keydown', (event) => event.repeat && event.key === 'Enter' && event.preventDefault());
at('ask').addEventListener('click', (event) => event.detail > 1 && event.preventDefault());
at('filters').addEventListener('change', () => void show());
at('actions').addEventListener('click', ({ target }) => target.value && ask(target.value, target));
at('ask-not').addEventListener('click', () => at('ask').close());
at('leave').addEventListener('click', () => {
  kept.clear();
  location.replace(location.pathname);
});
addEventListener('hashchange', () => {
  tell('', '');
  at('ask').close();
  at('follow-up').reset();
  void show();
});
document.addEventListener('visibilitychange', () => void show());
setInterval(() => job !== null && showActions(), 5_000);
at('phase').append(...Object.entries({ '': 'any', ...words.phases }).map(([value, text]) => new Option(text, value)));
at('with-key').hidden = at('enter-key').disabled = !needsKey;
at('enter-project').value = kept.getItem('project');
void show();
