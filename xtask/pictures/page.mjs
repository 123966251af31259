// Pictures of the page of `tccc serve` over a recording, in both colour schemes: `cargo xtask pictures` runs this.

import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const { TCCC, RECORDING, PICTURES, PACKAGES } = process.env;
const puppeteer = createRequire(join(PACKAGES, "x.js"))("puppeteer-core");
const SIZE = { width: 1280, height: 740 };
const SOON_MS = 60_000;

/** A server over the recording, and its address. */
async function serve() {
  const options = ["serve", "--listen", "127.0.0.1:0", "--replay", RECORDING, "--refresh", "200ms"];
  const server = spawn(TCCC, options, { stdio: ["ignore", "ignore", "pipe"] });
  const url = await new Promise((found, lost) => {
    let said = "";
    server.stderr.on("data", (text) => {
      said += text;
      const address = /serving (http:\/\/[^,]+),/.exec(said)?.[1];
      if (address) found(address);
    });
    server.on("exit", () => lost(new Error(`the server ended: ${said}`)));
  });
  return { url, end: () => server.kill() };
}

/** Goes to the end of the recording and stays there. */
async function stopAtTheEnd(page) {
  await page.waitForSelector("input[type=range]");
  await page.evaluate(async () => {
    const tell = (wanted) => fetch("/api/playback", { method: "POST", body: JSON.stringify(wanted) });
    await tell({ speed: 60 });
    await new Promise((done) => setTimeout(done, 2000));
    await tell({ speed: 0 });
  });
}

/** The first flow of this algorithm; the table has the highest goodput first. */
async function choose(page, algorithm) {
  await page.waitForFunction(() => document.querySelectorAll(".rows .row").length > 3);
  return page.evaluate((name) => {
    const rows = [...document.querySelectorAll(".rows .row")].filter((row) => row.textContent.includes(name));
    return (rows[0] ?? document.querySelector(".rows .row")).dataset.id;
  }, algorithm);
}

const server = await serve();
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
    await page.close();
  }
} finally {
  await browser.close();
  server.end();
}
