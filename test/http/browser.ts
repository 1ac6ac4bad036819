/** A real browser on the page for people: Chromium of the machine, and what it said to the console. */
import { execFileSync } from 'node:child_process';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { needToolchain } from '../support/toolchains.js';

let browser: Promise<Browser> | undefined;

/** A tab of its own, with nothing kept of others, and the addresses that it asked. Skips the test without a browser. */
export interface Tab {
  page: Page;
  context: BrowserContext;
  /** Method and address of each request, in order. */
  requests: string[];
  /** Errors, violations of the policy among them. */
  errors: string[];
}

export async function openTab(context: TestContext, options: Parameters<Browser['newContext']>[0] = {}): Promise<Tab> {
  const program = await needToolchain(context, 'chromium');
  const executablePath = execFileSync('which', [program], { encoding: 'utf8' }).trim();
  browser ??= chromium.launch({ executablePath });
  const own = await (await browser).newContext({ locale: 'en-GB', timezoneId: 'UTC', ...options });
  context.onTestFinished(() => own.close());
  const page = await own.newPage();
  page.setDefaultTimeout(60_000);
  const [requests, errors]: string[][] = [[], []];
  own.on('request', (request) => requests!.push(`${request.method()} ${request.url()}`));
  page.on('console', (message) => message.type() === 'error' && errors!.push(message.text()));
  page.on('pageerror', (error) => errors!.push(error.message));
  return { page, context: own, requests: requests!, errors: errors! };
}

/** Closes the browser after the tests of a file. */
export function useBrowser(): void {
  afterAll(async () => {
    await (await browser)?.close();
    browser = undefined;
  });
}

/** Opens the page, and enters a project and, if there is one, a key. */
export async function enter({ page }: Tab, url: string, projectId: string, key?: string): Promise<void> {
  await page.goto(url);
  await page.getByLabel('Project').fill(projectId);
  if (key !== undefined) await page.getByLabel('Key').fill(key);
  await page.getByRole('button', { name: 'Show the jobs' }).click();
}
