/** The page for people in a real browser, over a real server and worker: what it shows and sends, and to whom. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test, type TestContext } from 'vitest';
import { agentJobWorkflowId } from '../../src/contract.js';
import { CallerKeys } from '../../src/http/keys.js';
import { HttpServer } from '../../src/http/server.js';
import { AgentJobs } from '../../src/starter.js';
import { gathered, QUICK } from '../client/job-server.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { enter, openTab, type Tab, useBrowser } from './browser.js';
import { byId, type HttpJobServer, startHttp, startHttpJobServer } from './http-server.js';

let server: HttpJobServer;
beforeAll(async () => {
  server = await startHttpJobServer();
});
afterAll(() => server.close());
useBrowser();

const ENDLESS = { activeMs: 3_600_000 };

/** Starts a job whose create is in doubt, though a job was made. */
async function startInDoubt() {
  const prompt = `remember the address ${randomUUID()}`;
  const fault = { kind: 'status', status: 500, effect: 'after', promptIncludes: prompt } as const;
  await server.sandbox.addFault({ ...fault, operation: 'create' });
  const job = await startJob(prompt);
  await expect.poll(async () => (await job.state()).phase).toBe('needsAttention');
  return { job, prompt };
}

const startJob = (prompt: string, key: string = randomUUID()) =>
  server.jobs.start({ key, projectId: server.projectId, prompt, ...QUICK });

/** Starts a job that does not end, and waits until it was created. */
async function startEndless() {
  const prompt = `explain ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: ENDLESS });
  const job = await startJob(prompt);
  await expect.poll(async () => (await job.state()).jobId).not.toBeNull();
  return { job, prompt, jobId: (await job.state()).jobId! };
}

const pageOf = ({ workflowId }: { workflowId: string }, url = server.bench.http.url) =>
  `${url}/#${byId(workflowId).split('/').at(-1)}`;

/** A tab with the page of a job. */
async function openJob(context: TestContext, job: { workflowId: string }, key = server.bench.own): Promise<Tab> {
  const tab = await openTab(context);
  await enter(tab, pageOf(job), server.projectId, key);
  return tab;
}

const buttons = ({ page }: Tab) => page.locator('#job button:visible').allTextContents();
/** What the page of a job says under a label. */
const fact = ({ page }: Tab, label: string) =>
  expect.poll(() => page.locator(`dt:text-is("${label}") + dd`).textContent({ timeout: 1_000 }).catch(String));

const press = ({ page }: Tab, name: string) => page.getByRole('button', { name, exact: true }).click();

test('a job in doubt is adopted, and a tab that was asked before decides nothing new', async (context) => {
  const { job, prompt } = await startInDoubt();
  const tab = await openTab(context);
  await enter(tab, server.bench.http.url, server.projectId, server.bench.own);
  // By keyboard alone.
  await tab.page.getByRole('link', { name: prompt }).press('Enter');
  await tab.page.getByText('whether the job was created').waitFor();
  // Sent again before `lookAfter`, it might be made twice.
  await expect.poll(() => buttons(tab)).toEqual(['It is there …', 'Send again …', 'Give up …', 'Cancel …', 'Send …']);
  expect(await tab.page.getByRole('button', { name: 'Send again …' }).isDisabled()).toBe(true);
  const old = await openJob(context, job);
  await press(old, 'Give up …');
  await press(tab, 'It is there …');
  const [created] = await server.sandbox.creates({ promptIncludes: prompt });
  await tab.page.getByLabel('Id of the job').fill(String(created!.id));
  await tab.page.getByLabel('Your name').fill('Ann');
  await tab.page.getByLabel('Why').fill('I saw it');
  await press(tab, 'Yes');
  await fact(tab, 'Decided').toBe('adopt, own: Ann, I saw it');
  await fact(tab, 'State').toBe('completed');
  await press(old, 'Yes');
  await expect.poll(() => old.page.locator('#ask-problem').textContent()).not.toBe('');
  expect((await job.state()).decisions).toMatchObject([{ action: 'adopt', by: 'own: Ann', note: 'I saw it' }]);
  expect(await server.sandbox.creates({ promptIncludes: prompt })).toHaveLength(1);
});

test('a follow-up is sent once, though its answer is lost and the button is pressed three times', async (context) => {
  const { job, jobId } = await startEndless();
  const tab = await openJob(context, job);
  await tab.page.route('**/follow-ups', async (route) => {
    await route.fetch();
    await route.abort();
  });
  const text = tab.page.getByRole('textbox', { name: 'Follow-up' });
  await text.fill('And add a test');
  await press(tab, 'Send …');
  await press(tab, 'Yes');
  await tab.page.getByText('No answer came').waitFor();
  await tab.page.unroute('**/follow-ups');
  await tab.page.getByRole('button', { name: 'Yes' }).dblclick();
  await fact(tab, 'Follow-ups').toMatch(/^[\d-]+: sent$/);
  const [message, ...others] = await server.sandbox.messages({ jobId });
  expect([message!.prompt, others]).toEqual(['And add a test', []]);
  expect(tab.requests.filter((request) => request.startsWith('POST'))).toHaveLength(2);
  // The same words are a new message once the first one was taken.
  await expect.poll(() => text.inputValue()).toBe('');
  await job.cancel();
});

test('a question says what will happen; no key that is held down, and no second click answers it', async (context) => {
  const { job } = await startInDoubt();
  const tab = await openJob(context, job);
  const { keyboard } = tab.page;
  for (const name of ['Cancel …', 'Give up …']) {
    await tab.page.getByRole('button', { name }).focus();
    for (let times = 0; times < 5; times += 1) await keyboard.down('Enter');
    await keyboard.up('Enter');
    const described = "document.querySelector('dialog').ariaDescribedByElements?.[0].textContent";
    const button = tab.page.getByRole('button', { name, includeHidden: true });
    expect(await tab.page.evaluate(described)).toBe(await button.getAttribute('title'));
    await keyboard.press('Escape');
  }
  // "Yes" comes to lie where the second click goes.
  await tab.page.setViewportSize({ width: 360, height: 740 });
  await tab.page.getByRole('button', { name: 'Give up …' }).click();
  const { x, y, width, height } = (await tab.page.getByRole('button', { name: 'Yes' }).boundingBox())!;
  await keyboard.press('Escape');
  const moved = `position: fixed; left: ${x}px; top: ${y}px`;
  await tab.page.evaluate(`document.querySelector('button[value=abandon]').style = '${moved}'`);
  await tab.page.mouse.dblclick(x + width / 2, y + height / 2);
  await keyboard.press('Escape');
  expect(tab.requests.filter((request) => request.startsWith('POST'))).toEqual([]);
  // Pressed once more, it answers.
  await tab.page.getByRole('button', { name: 'Give up …' }).press('Enter');
  await keyboard.press('Enter');
  await fact(tab, 'State').toMatch(/given up/);
});

test('a clock that is an hour fast sends nothing again too early', async (context) => {
  const { job } = await startInDoubt();
  const tab = await openTab(context);
  await tab.page.clock.setSystemTime(Date.now() + 3_600_000);
  await enter(tab, pageOf(job), server.projectId, server.bench.own);
  expect(await tab.page.getByRole('button', { name: 'Send again …' }).isDisabled()).toBe(true);
  await job.cancel();
});

test('a job of another project says whose it is, and each tab names its job', async (context) => {
  const projectId = `other ${randomUUID()}`;
  const key = randomUUID();
  const workflowId = agentJobWorkflowId(projectId, key);
  await server.jobs.start({ projectId, key, prompt: 'p', ...QUICK });
  const tab = await openJob(context, { workflowId }, server.bench.operator);
  await fact(tab, 'Workflow').toBe(workflowId);
  expect(await tab.page.getByRole('banner').textContent()).not.toContain(server.projectId);
  expect(await tab.page.title()).toContain(key);
});

test('without scripts, and while the server is slow, the page says so', async (context) => {
  const still = await openTab(context, { javaScriptEnabled: false });
  await still.page.goto(server.bench.http.url);
  expect(await still.page.getByRole('banner').innerText()).toContain('This page needs JavaScript');
  const { page, ...tab } = await openTab(context);
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route('**/v1/**', async (route) => {
    await answered;
    await route.continue();
  });
  await enter({ page, ...tab }, server.bench.http.url, server.projectId, server.bench.own);
  await page.getByText('The server has not answered yet').waitFor();
  answer();
  await page.locator('#list').waitFor();
  expect(await page.locator('#notice').textContent()).toBe('');
});

test('an answer that comes late changes no other question and no new text', async (context) => {
  const { job, jobId } = await startEndless();
  const tab = await openJob(context, job);
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  await tab.page.route('**/follow-ups', async (route) => {
    await released;
    await route.continue();
  });
  const text = tab.page.getByRole('textbox', { name: 'Follow-up' });
  await text.fill('And add a test');
  await press(tab, 'Send …');
  await press(tab, 'Yes');
  await press(tab, 'No');
  await text.fill('And a page');
  await press(tab, 'Cancel …');
  const answered = tab.page.waitForResponse('**/follow-ups');
  release();
  expect((await answered).ok()).toBe(true);
  await fact(tab, 'Follow-ups').toMatch(/: sent$/);
  expect(await tab.page.getByRole('button', { name: 'Yes' }).isEnabled()).toBe(true);
  await press(tab, 'No');
  expect(await text.inputValue()).toBe('And a page');
  expect((await server.sandbox.messages({ jobId })).map(({ prompt }) => prompt)).toEqual(['And add a test']);
  await job.cancel();
});

test('a key that may only read sees no button, and its forged write is refused', async (context) => {
  const { reader } = server.bench;
  const { job } = await startInDoubt();
  const tab = await openJob(context, job, reader);
  await tab.page.getByText('whether the job was created').waitFor();
  expect(await buttons(tab)).toEqual([]);
  const forged = await tab.page.evaluate(
    async ([path, key]) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const answer = await fetch(`${path}/resolve`, { method: 'POST', headers, body: '{"action": "abandon"}' });
      return [answer.status, ((await answer.json()) as { code: string }).code];
    },
    [byId(job.workflowId), reader],
  );
  expect(forged).toEqual([403, 'READ_ONLY_KEY']);
  expect((await job.state()).phase).toBe('needsAttention');
  await job.cancel();
});

test('markup in a title and a link that is no link are shown as text; no key is in an address', async (context) => {
  const prompt = `<img src=x onerror=alert(1)><script>alert(2)</script> ${randomUUID()}`;
  const steps = [{ status: '<b>active</b>', prLink: 'javascript:alert(3)' }];
  await server.sandbox.addScript({ promptIncludes: prompt, script: { steps } });
  const job = await startJob(prompt, '"><img src=x onerror=alert(4)>');
  const tab = await openTab(context);
  const { page, requests, errors } = tab;
  page.on('dialog', () => errors.push('a script of the title ran'));
  await enter(tab, server.bench.http.url, server.projectId, server.bench.own);
  await page.getByRole('link', { name: prompt }).click();
  await fact(tab, 'Pull requests').toBe('javascript:alert(3)');
  await fact(tab, 'Upstream says').toBe('<b>active</b>');
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(prompt);
  expect(await page.locator('img, b, body script, a[href^=javascript]').count()).toBe(0);
  expect(errors).toEqual([]);
  await page.setViewportSize({ width: 360, height: 640 });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
  const addresses = [...requests, page.url()].join();
  expect([addresses.includes(server.bench.own), await page.evaluate('localStorage.length')]).toEqual([false, 0]);
  await job.cancel();
  await press(tab, 'Leave');
  await page.getByLabel('Key').waitFor();
  expect(await page.evaluate('sessionStorage.length')).toBe(0);
});

test('a link opens without its opener; an empty list, no such job and a wrong key say so', async (context) => {
  const job = await startJob(`fix ${randomUUID()}`);
  const { prLink } = await job.result();
  const tab = await openJob(context, job);
  const link = tab.page.getByRole('link', { name: prLink! });
  expect([await link.getAttribute('rel'), await link.getAttribute('target')]).toEqual([
    'noopener noreferrer',
    '_blank',
  ]);
  await tab.page.goto(`${server.bench.http.url}/#${Buffer.from('agent-job/x/y').toString('base64url')}`);
  await tab.page.getByText('this key is not for this project').waitFor();
  await tab.page.goto(pageOf({ workflowId: `agent-job/${server.projectId}/nothing` }));
  await expect.poll(() => tab.page.locator('#notice').textContent()).toMatch(/nothing/);
  await tab.page.goto(`${server.bench.http.url}/#`);
  await tab.page.getByLabel('Tag').fill('nobody has it');
  await tab.page.getByLabel('Tag').press('Enter');
  await tab.page.getByText('No job fits these filters').waitFor();
  const wrong = await openJob(context, job, 'wrong');
  await wrong.page.getByText('This key is unknown').waitFor();
  await wrong.page.getByLabel('Key').fill(server.bench.own);
  await press(wrong, 'Show the jobs');
  await wrong.page.getByRole('heading', { level: 1 }).waitFor();
});

const idOf = ({ projectId, key }: Record<'projectId' | 'key', string>) => agentJobWorkflowId(projectId, key);

test('1,000 jobs are listed with five requests, and a hidden tab asks nothing', async (context) => {
  const own = await connectOwnNamespace();
  const jobs = new AgentJobs({ client: own.client, taskQueue: own.taskQueue });
  const requests = Array.from({ length: 1_000 }, (_, i) => ({
    key: `job-${i}`,
    projectId: 'many',
    prompt: `job ${i}`,
  }));
  await gathered(jobs.startMany(requests, { concurrency: 20 }));
  await Promise.all(requests.slice(0, 10).map((request) => own.client.workflow.getHandle(idOf(request)).terminate()));
  const count = async (query: string) =>
    (await own.client.workflow.count(`AgentJobProject = 'many' AND ${query}`)).count;
  await expect.poll(() => count('CloseTime IS NULL')).toBe(990);
  await expect.poll(() => count('CloseTime IS NOT NULL')).toBe(10);
  const bench = await startHttp(jobs, 'many');
  const tab = await openTab(context);
  const { page } = tab;
  await enter(tab, bench.http.url, 'many', bench.own);
  await page.getByText('Running (990)').waitFor();
  const lists = () => tab.requests.filter((request) => request.includes('/v1/')).length;
  expect(await page.getByRole('listitem').count()).toBe(1_000);
  const seen = (isHidden: boolean) =>
    page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));`);
  await seen(true);
  // On a busy machine another round may be under way, or over.
  await page.waitForLoadState('networkidle');
  const before = lists();
  expect(before % 5).toBe(0);
  await page.waitForTimeout(12_000);
  expect(lists()).toBe(before);
  await seen(false);
  await expect.poll(lists).toBeGreaterThanOrEqual(before + 5);
  await bench.close();
  await own.close();
});

test('a server that goes away and comes back is noticed, and the job is shown as it is by then', async (context) => {
  const { job, jobId } = await startEndless();
  const keys = new CallerKeys(server.bench.keysFile, () => {});
  const service = { connect: () => Promise.resolve(server.jobs), keys, version: '0', onProblem: () => {} };
  const first = await HttpServer.listen(service, { host: '127.0.0.1', port: 0 });
  const { port } = new URL(first.url);
  const tab = await openTab(context);
  const startedAt = Date.now();
  await enter(tab, pageOf(job, first.url), server.projectId, server.bench.own);
  await fact(tab, 'State').toBe('at work');
  await first.end();
  await tab.page.getByText('The server does not answer').waitFor();
  await fact(tab, 'State').toBe('at work');
  await server.sandbox.setJob({ id: jobId, status: 'failed' });
  const again = await HttpServer.listen(service, { host: '127.0.0.1', port: Number(port) });
  await fact(tab, 'State').toBe('failed');
  await expect.poll(() => tab.page.locator('#notice').textContent()).toBe('');
  const mostRequests = 20 + (Date.now() - startedAt) / 1_000;
  expect(tab.requests.filter((request) => request.includes('/v1/')).length).toBeLessThan(mostRequests);
  await again.end();
});

/** A page of another site: a form that sends, a request of a script, and a frame. */
async function startOtherSite(target: string) {
  const frame = `<iframe src="${new URL('/', target).href}"></iframe>`;
  const html = `<form method=post action="${target}/cancel"></form>${frame}`;
  const site = createServer((_, response) => void response.setHeader('content-type', 'text/html').end(html));
  await once(site.listen(0, '127.0.0.1'), 'listening');
  return { site, address: `http://127.0.0.1:${(site.address() as AddressInfo).port}/` };
}

test('without keys the own page writes, and no other site', async (context) => {
  const { job, jobId } = await startEndless();
  const service = { connect: () => Promise.resolve(server.jobs), keys: null, version: '0', onProblem: () => {} };
  const http = await HttpServer.listen(service, { host: '127.0.0.1', port: 0 });
  const { site, address } = await startOtherSite(http.url + byId(job.workflowId));
  const { page, errors } = await openTab(context);
  await page.goto(address);
  await expect.poll(() => errors.join()).toMatch(/frame-ancestors/);
  const scripted = page.waitForResponse(/cancel$/);
  const options = { method: 'POST', mode: 'no-cors' } as const;
  const target = `${http.url}${byId(job.workflowId)}/cancel`;
  await page.evaluate(([to, how]) => void fetch(to, how), [target, options] as const);
  expect((await scripted).status()).toBe(403);
  const sent = page.waitForResponse(/cancel$/);
  // After the call has returned: the page that is left takes its answer along.
  await page.evaluate('void setTimeout(() => document.forms[0].submit())');
  expect((await sent).status()).toBe(403);
  expect((await job.state()).outcome).toBeNull();
  // The page of this server asks for no key.
  const tab = await openTab(context);
  await enter(tab, pageOf(job, http.url), server.projectId);
  await fact(tab, 'State').toBe('at work');
  expect(await tab.page.getByLabel('Key').isVisible()).toBe(false);
  const polled = tab.page.waitForResponse(/poll-now$/);
  await press(tab, 'Poll now …');
  await press(tab, 'Yes');
  expect((await polled).ok()).toBe(true);
  await server.sandbox.setJob({ id: jobId, status: 'completed', prLink: true });
  await fact(tab, 'State').toBe('completed');
  expect(tab.errors).toEqual([]);
  await http.end();
  site.close();
});
