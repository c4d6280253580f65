// Walks through the pages in a real Chromium. crates/gregor/tests/real_console.rs starts it, tells it what to look for,
// one request in JSON per line, and reads one answer per line: {"ok": …} or {"failed": "why"}.
//
// Everything that a page must never do is collected from the first page to the last: errors on the console of the
// browser, requests to any other host, violations of the content security policy.

import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const AXE = await readFile(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const WAIT_MS = 180_000;
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, isMobile: true, deviceScaleFactor: 2 },
};

const browser = await chromium.launch({ executablePath: process.env.GREGOR_CHROMIUM, args: FLAGS });
const seen = { errors: [], violations: [], hosts: new Set() };
const context = await watched(LOOKS.light);
const page = await context.newPage();

async function watched(look) {
  const made = await browser.newContext(look);
  await made.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective}`));
  });
  made.on('request', (request) => seen.hosts.add(new URL(request.url()).host));
  made.on('console', (message) => {
    if (message.text().startsWith('CSP: ')) seen.violations.push(message.text());
    else if (message.type() === 'error' || message.type() === 'warning') seen.errors.push(message.text());
  });
  made.on('weberror', (error) => seen.errors.push(String(error.error())));
  return made;
}

const tasks = {
  /** Opens an address, and answers with its status and its text. */
  async open({ url }) {
    const response = await page.goto(url);
    return { status: response.status(), text: await page.innerText('body') };
  },
  /** Opens the printed address, and waits until the pages are there. */
  async login({ url }) {
    await page.goto(url);
    await page.waitForURL((at) => at.pathname === '/');
    await page.waitForSelector('.connection.good');
    const [cookie, ...others] = await context.cookies();
    const scripts = await page.evaluate(() => document.cookie);
    return { cookie, others: others.length, scripts, url: page.url() };
  },
  /** Follows a link with the keyboard alone. */
  async press({ link, exact = false }) {
    const target = page.getByRole('link', { name: link, exact }).first();
    await target.focus();
    await page.keyboard.press('Enter');
    return { path: new URL(page.url()).pathname };
  },
  /** Waits until all texts are seen on the page. */
  async sees({ texts = [], not = [], within = 'main' }) {
    const missing = ([all, none, where]) => {
      const text = document.querySelector(where)?.innerText ?? '';
      return all.every((one) => text.includes(one)) && none.every((one) => !text.includes(one));
    };
    await page.waitForFunction(missing, [texts, not, within], { timeout: WAIT_MS }).catch(async () => {
      throw new Error(`looked for ${texts} without ${not} in:\n${await page.innerText('body')}`);
    });
    return {};
  },
  /** Presses a button, by its name. */
  async push({ button, within = 'main' }) {
    await page.locator(within).getByRole('button', { name: button, exact: true }).first().click();
    return {};
  },
  /** Replaces the text of the editor, as a person who pastes does, and answers with what was in it. */
  async paste({ yaml, from, to }) {
    const content = page.locator('.editor .cm-content');
    await content.click();
    await page.waitForFunction(
      () => document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')?.textContent?.includes('Kafka'),
      null,
      { timeout: WAIT_MS },
    );
    // Only what is on the screen exists in the page; what was loaded is what the server sends.
    const before = await page.evaluate(
      async (path) => {
        const headers = { 'x-gregor-key': localStorage.getItem('gregor-key') ?? '' };
        return (await (await fetch(path, { headers })).json()).yaml;
      },
      resourcesOf(new URL(page.url()).pathname),
    );
    const text = yaml ?? before.replace(from, to);
    await page.keyboard.press('Control+A');
    await page.keyboard.insertText(text);
    return { before, text };
  },
  /** The lines of the plan, each with whether it is ticked off. */
  async lines() {
    const rows = await page.locator('ol.plan > li').all();
    return await Promise.all(
      rows.map(async (row) => ({
        text: await row.innerText(),
        done: (await row.getAttribute('class')).includes('done'),
      })),
    );
  },
  /** Moves the slider of the history to its first point. */
  async rewind() {
    const slider = page.locator('.history input[type=range]');
    await slider.focus();
    await page.keyboard.press('Home');
    await page.waitForSelector('.banner.warn');
    return { text: await page.innerText('main'), url: page.url() };
  },
  /** Logs in to a console that serves users. */
  async signIn({ url, token }) {
    await page.goto(url);
    await page.getByLabel('Bearer token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    return {};
  },
  /** What the server answers to a request of the page itself. */
  async request({ path, body }) {
    return await page.evaluate(
      async ([to, what]) => {
        const headers = {
          'x-gregor-key': localStorage.getItem('gregor-key') ?? '',
          'content-type': 'application/json',
        };
        const init = what === null ? { headers } : { headers, method: 'POST', body: JSON.stringify(what) };
        const response = await fetch(to, init);
        return { status: response.status, text: await response.text() };
      },
      [path, body ?? null],
    );
  },
  /** The tiles of the nodes as a person reads them. */
  async nodes() {
    const tiles = await page.locator('li.node').allInnerTexts();
    return tiles.map((text) => text.split('\n').map((line) => line.trim()));
  },
  /** The voters as a person reads them. */
  async seats() {
    return await page.locator('.seats li').allInnerTexts();
  },
  /** Looks at the page in light and dark and on a small screen: pictures, and what axe finds. */
  async look({ path, folder, name }) {
    const origin = new URL(page.url()).origin;
    const key = await page.evaluate(() => localStorage.getItem('gregor-key'));
    const found = [];
    for (const [look, options] of Object.entries(LOOKS)) {
      const other = await watched(options);
      await other.addCookies(await context.cookies());
      // Not on the empty page that a tab begins with.
      await other.addInitScript(
        (value) => location.protocol === 'http:' && localStorage.setItem('gregor-key', value),
        key,
      );
      const shown = await other.newPage();
      await shown.goto(origin + path);
      await shown.waitForSelector('main h1, main .empty');
      await shown.waitForFunction(() => !document.querySelector('.spinner'), null, { timeout: WAIT_MS });
      if (folder) await shown.screenshot({ path: `${folder}/${name}-${look}.png`, fullPage: true });
      const wide = await shown.evaluate(() => document.documentElement.scrollWidth - screen.width);
      // With the elements that reach beyond the screen, outermost first.
      const reach = await shown.evaluate(() =>
        [...document.querySelectorAll('main *')]
          .filter((one) => one.getBoundingClientRect().right > screen.width + 1)
          .slice(0, 4)
          .map((one) => `${one.tagName.toLowerCase()}.${one.className}`),
      );
      if (look === 'phone' && wide > 0) found.push(`${look}: ${wide} px too wide: ${reach.join(', ')}`);
      found.push(...(await axe(shown)).map((one) => `${look}: ${one}`));
      await other.close();
    }
    return found;
  },
  /** What must be empty at the end. */
  async report() {
    return { errors: seen.errors, violations: seen.violations, hosts: [...seen.hosts] };
  },
};

/** Serious findings of axe. It is put into a frame of the debugger, which the policy of the page does not concern. */
async function axe(shown) {
  const session = await shown.context().newCDPSession(shown);
  const run = `${AXE}; axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations
    .filter((one) => one.impact === 'serious' || one.impact === 'critical')
    .map((one) => one.id + ': ' + one.nodes.map((node) => node.target + ' ' + node.failureSummary).join('; ')))`;
  const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
    expression: run,
    awaitPromise: true,
    returnByValue: true,
  });
  if (exceptionDetails) throw new Error(`axe: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
  return result.value;
}

/** The request for the resources of the cluster of a page. */
function resourcesOf(path) {
  const [, , namespace, name] = path.split('/');
  return `/api/resources?namespace=${namespace}&name=${name}`;
}

page.setDefaultTimeout(WAIT_MS);
for await (const line of createInterface({ input: process.stdin })) {
  const { task, ...given } = JSON.parse(line);
  const answer = await tasks[task](given).then(
    (ok) => ({ ok }),
    (error) => ({ failed: String(error.stack ?? error) }),
  );
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
