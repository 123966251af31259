// Tests the page in headless Chromium: every view at desktop and phone size, in both colour schemes, by keyboard and by
// ARIA roles.
//
// Stops at the first failure. Writes screenshots to the folder PICTURES.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

import { serve } from "./server.mjs";
import { lookAtIncidents, lookAtTheEnd, lookAtTrial, TrialServer } from "./trial.mjs";
import { useEverything } from "./uses.mjs";

const { TCCC, PICTURES, PACKAGES, SERVER } = process.env;
const require = createRequire(join(PACKAGES, "x.js"));
const puppeteer = require("puppeteer-core");
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const RECORDING = "tests/fixtures/recording-format-1.tccc";
const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const SOON_MS = 60_000;

/** A tab whose errors are collected. */
async function open(browser, size, scheme) {
  const page = await browser.newPage();
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.setDefaultTimeout(SOON_MS);
  await page.setViewport(SIZES[size]);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  return { page, errors };
}

async function picture(page, name) {
  await writeFile(join(PICTURES, `${name}.png`), await page.screenshot());
}

/** The accessibility violations that axe finds, as text. Empty if there are none. */
async function violations(page) {
  const session = await page.createCDPSession();
  // The page's own policy forbids foreign scripts; the debugger may run one.
  await session.send("Runtime.evaluate", { expression: axe });
  const found = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
  return found.violations.map((it) => `${it.id}: ${it.help}: ${it.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

async function text(page, selector) {
  return page.$eval(selector, (node) => node.textContent);
}

/** The overview has a row and five charts with values of the recording, and is not wider than the window. */
async function lookAtOverview(page, name) {
  await page.waitForSelector(".now tbody tr");
  await page.waitForFunction(() => /\d/.test(document.querySelector(".now tbody td").textContent));
  await page.waitForFunction(() => [...document.querySelectorAll(".multiples .chart")].some((it) => /Goodput: .*bit\/s/.test(it.getAttribute("aria-label"))));
  assert.equal(await page.$eval('nav [aria-current="page"]', (link) => link.textContent), "Overview");
  assert.equal(await page.$$eval(".multiples .chart", (charts) => charts.length), 5);
  await picture(page, name);
  assert.deepEqual(await violations(page), [], name);
  const widest = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(widest <= 0, `${name}: the page is ${widest} pixels too wide`);
}

/** Opens the sockets of an algorithm by keyboard. */
async function followAlgorithm(page) {
  await page.focus(".now tbody tr:nth-child(2) a");
  const name = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".rows .row");
  assert.equal(await page.$eval("#filter", (field) => field.value), `algorithm:${name}`);
  await page.keyboard.press("o");
  await page.waitForSelector(".now tbody tr");
}

async function lookAtSockets(page, name) {
  await page.waitForSelector(".rows .row");
  await page.waitForFunction(() => document.querySelectorAll(".rows .row").length > 3);
  await picture(page, name);
  assert.deepEqual(await violations(page), [], name);
  const widest = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(widest <= 0, `${name}: the page is ${widest} pixels too wide`);
}

async function lookAtFlow(page, url, name) {
  const id = await page.$eval(".rows .row", (row) => row.dataset.id);
  await page.goto(`${url}/#/flow/${id}`);
  await page.waitForSelector(".u-wrap");
  await page.waitForFunction(() => document.querySelector("h1")?.textContent.includes("→"));
  await page.waitForFunction(() => document.querySelector("dl dd")?.textContent !== "");
  await picture(page, name);
  assert.deepEqual(await violations(page), [], name);
}

/** Uses the filter, the keys and the sort order of the table. No word in it may be cut. */
async function useTable(page) {
  await page.goto(page.url().replace(/#.*/, "#/sockets"));
  await page.waitForSelector(".rows .row");
  await page.keyboard.press("/");
  await page.keyboard.type("speed>3");
  assert.match(await text(page, "#filter-says"), /expected one of peer/);
  await page.$eval("#filter", (field) => { field.value = ""; });
  await page.keyboard.type("algorithm:dtcp");
  await page.waitForFunction(() => [...document.querySelectorAll(".rows .row")].every((row) => row.textContent.includes("dtcp")));
  assert.match(page.url(), /filter=algorithm/);
  await page.focus(".grid");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.$$eval('.row[aria-selected="true"]', (rows) => rows.length), 1);
  await page.click('[data-column="cwnd"]');
  assert.equal(await page.$eval('[data-column="cwnd"]', (button) => button.parentElement.getAttribute("aria-sort")), "descending");
  const short = await page.evaluate(() => [["ca_state", "Recovery"], ["ca_state", "Disorder"], ["phase", "slow_start"], ["phase", "reno_friendly"]].filter(([name, longest]) => {
    const head = document.querySelector(`[data-column="${name}"]`).parentElement;
    const cell = document.querySelector(".rows .row").children[[...head.parentElement.children].indexOf(head)];
    const [text, state] = [cell.textContent, cell.dataset.state];
    cell.textContent = longest;
    if (name === "ca_state") cell.dataset.state = longest;
    const isCut = cell.scrollWidth > cell.clientWidth;
    cell.textContent = text;
    if (name === "ca_state") cell.dataset.state = state;
    return isCut;
  }));
  assert.deepEqual(short, [], "words for which a column has no room");
  const cut = await page.$$eval(".head button", (buttons) => buttons.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent));
  assert.deepEqual(cut, [], "headings that are cut");
  await page.focus(".grid");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".u-wrap");
  assert.match(page.url(), /#\/flow\/\d+$/);
}

/** Zooms by dragging and by keys, reads the values under the pointer, and returns to the newest moment. */
async function useChart(page) {
  await page.waitForFunction(() => document.querySelector("h1")?.textContent.includes("→"));
  await page.evaluate(() => fetch("/api/playback", { method: "POST", body: JSON.stringify({ speed: 1 }) }));
  const over = await page.waitForSelector(".u-over");
  await over.scrollIntoView();
  const box = await over.boundingBox();
  const y = box.y + box.height / 2;
  const ticks = () => page.$eval(".u-wrap", () => document.querySelector(".chart").getAttribute("aria-label"));
  await page.mouse.move(box.x + box.width * 0.5, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, y, { steps: 4 });
  await page.mouse.up();
  await page.mouse.move(box.x + box.width * 0.6, y);
  assert.match(await text(page, ".u-legend"), /cwnd/);
  await page.focus(".chart");
  for (const key of ["+", "-", "ArrowLeft", "ArrowRight", "0"]) await page.keyboard.press(key);
  assert.match(await ticks(), /Window, packets: cwnd/);
}

/** Frames per second that the browser draws, over two seconds. */
async function framesPerSecond(page) {
  const begin = await page.evaluate(() => new Promise((done) => {
    let frames = 0;
    const from = performance.now();
    const step = (now) => (now - from < 2000 ? (frames += 1, requestAnimationFrame(step)) : done(frames / 2));
    requestAnimationFrame(step);
  }));
  return begin;
}

/** Tests the trial and the incidents at both sizes and in both colour schemes, then the end of the trial. */
async function lookAtTrials(browser) {
  const server = await TrialServer.start(TCCC);
  try {
    for (const [size, scheme] of [["desktop", "light"], ["desktop", "dark"], ["phone", "light"], ["phone", "dark"]]) {
      const { page, errors } = await open(browser, size, scheme);
      const look = async (name) => {
        await picture(page, name);
        assert.deepEqual(await violations(page), [], name);
      };
      await lookAtTrial(page, server.url, `${size}-${scheme}`, look);
      const known = errors.length;
      await lookAtIncidents(page, server.url, `${size}-${scheme}`, look);
      // The browser itself logs that its last request was not found.
      assert.deepEqual(errors.filter((error) => !error.includes("404")), [], `${size}: the console has errors`);
      assert.equal(known, 0, errors.join("\n"));
      await page.close();
    }
    const { page, errors } = await open(browser, "desktop", "light");
    await lookAtTheEnd(page, server, async (name) => {
      await picture(page, name);
      assert.deepEqual(await violations(page), [], name);
    });
    assert.deepEqual(errors, [], "the console has errors");
    await page.close();
  } finally {
    await server.close();
  }
}

const server = SERVER ? { url: SERVER, end() {} } : await serve(TCCC, RECORDING);
const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", headless: true, args: ["--no-sandbox", "--disable-gpu"] });
try {
  for (const [size, scheme] of [["desktop", "light"], ["desktop", "dark"], ["phone", "light"], ["phone", "dark"]]) {
    const { page, errors } = await open(browser, size, scheme);
    await page.goto(`${server.url}/`);
    await lookAtOverview(page, `overview-${size}-${scheme}`);
    if (size === "desktop") await followAlgorithm(page);
    await page.goto(`${server.url}/#/sockets`);
    await lookAtSockets(page, `sockets-${size}-${scheme}`);
    await lookAtFlow(page, server.url, `flow-${size}-${scheme}`);
    await page.goto(`${server.url}/#/algorithms`);
    await page.waitForSelector(".algorithms tbody tr");
    await picture(page, `algorithms-${size}-${scheme}`);
    assert.deepEqual(await violations(page), [], `algorithms-${size}-${scheme}`);
    if (size === "desktop" && scheme === "light") {
      await useTable(page);
      await useChart(page);
      await page.goto(`${server.url}/#/sockets`);
      await page.waitForSelector(".rows .row");
      await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Plot").click());
      await page.waitForSelector(".plot-host .u-wrap");
      // Regression: the plot began empty, whatever the server knew.
      await page.waitForFunction(() => /sockets over ([2-9]|1\d) s/.test(document.querySelector(".plot-host .chart").getAttribute("aria-label")), { timeout: 10_000 });
      await picture(page, "plot");
      assert.deepEqual(await violations(page), [], "plot");
      console.log(`frames per second with the plot: ${await framesPerSecond(page)}`);
      await useEverything(page, server.url, (name) => picture(page, name));
    }
    assert.deepEqual(errors, [], `${size}: the console has errors`);
    await page.close();
  }
  if (!SERVER) await lookAtTrials(browser);
  console.log("the page is as it should be");
} finally {
  await browser.close();
  server.end();
}
