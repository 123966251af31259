// Pictures of the page of `tccc serve` over a recording and of a report of `tccc evaluate`, in both colour schemes, and of
// `tccc top`: `cargo xtask pictures` runs this.

import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { serve } from "../../tests/web/server.mjs";
import { pictureOfTop } from "./top.mjs";

const { TCCC, RECORDING, REPORT, PICTURES, PACKAGES } = process.env;
const puppeteer = createRequire(join(PACKAGES, "x.js"))("puppeteer-core");
const SIZE = { width: 1280, height: 740 };
const SOON_MS = 60_000;

/** Goes to the end of the recording and stays there. */
async function stopAtTheEnd(page) {
  await page.waitForSelector("input[type=range]");
  const play = (speed) => page.evaluate((it) => fetch("/api/playback", { method: "POST", body: JSON.stringify({ speed: it }) }).then(() => {}), speed);
  await play(60);
  const isAtTheEnd = () => {
    const [now, end] = document.querySelector(".playback output").textContent.split(" of ");
    return now === end;
  };
  await page.waitForFunction(isAtTheEnd, { timeout: SOON_MS });
  await play(0);
}

/** The first flow of this algorithm; the table has the highest goodput first. */
async function choose(page, algorithm) {
  await page.waitForFunction(() => document.querySelectorAll(".rows .row").length > 3);
  return page.evaluate((name) => {
    const rows = [...document.querySelectorAll(".rows .row")].filter((row) => row.textContent.includes(name));
    return (rows[0] ?? document.querySelector(".rows .row")).dataset.id;
  }, algorithm);
}

const server = await serve(TCCC, RECORDING);
const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", headless: true, args: ["--no-sandbox", "--disable-gpu"] });
try {
  for (const scheme of ["light", "dark"]) {
    const page = await browser.newPage();
    page.setDefaultTimeout(SOON_MS);
    await page.setViewport(SIZE);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(`${server.url}/#/sockets`);
    await stopAtTheEnd(page);
    await page.goto(`${server.url}/#/flow/${await choose(page, "dtcp")}`);
    await page.waitForSelector(".u-wrap");
    await page.waitForFunction(() => document.querySelector("h1")?.textContent.includes("→"));
    await page.waitForFunction(() => document.querySelector("dl dd")?.textContent !== "");
    await new Promise((done) => setTimeout(done, 500));
    await writeFile(join(PICTURES, `serve-${scheme}.png`), await page.screenshot());
    await page.goto(pathToFileURL(REPORT));
    await writeFile(join(PICTURES, `evaluate-${scheme}.png`), await page.screenshot());
    await page.close();
  }
  await pictureOfTop(await browser.newPage(), process.env);
} finally {
  await browser.close();
  server.end();
}
