// Measures the frame rate of headless Chromium while 200 flows are plotted and the pointer moves over them.
//
// Prints one line a second; the page comes from the server at SERVER.

import { createRequire } from "node:module";
import { join } from "node:path";

const { PACKAGES, SERVER } = process.env;
const require = createRequire(join(PACKAGES, "x.js"));
const puppeteer = require("puppeteer-core");
const PLOTTED = 200;
const SECONDS = 30;
/** Time for the curves to grow before the measurement begins. */
const MOMENTS_MS = 20_000;

/** The frame rate of each second, and the longest time between two frames, milliseconds. */
function watch(seconds) {
  return new Promise((done) => {
    const all = [];
    let [from, last, frames, longest_ms] = [performance.now(), performance.now(), 0, 0];
    const step = (now) => {
      [frames, longest_ms, last] = [frames + 1, Math.max(longest_ms, now - last), now];
      if (now - from >= 1000) {
        all.push({ frames: (frames * 1000) / (now - from), longest_ms });
        [from, frames, longest_ms] = [now, 0, 0];
      }
      if (all.length < seconds) requestAnimationFrame(step);
      else done(all);
    };
    requestAnimationFrame(step);
  });
}

/** Moves the pointer over the chart until told to stop. */
async function point(page, until) {
  const box = await (await page.waitForSelector(".plot-host .u-over")).boundingBox();
  for (let at = 0; !until.over; at = (at + 7) % box.width) await page.mouse.move(box.x + at, box.y + box.height / 2);
}

const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", headless: true, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 800 });
  await page.goto(`${SERVER}/#/sockets`);
  const rest = async () => (await page.evaluate(watch, 5)).map((it) => it.frames);
  console.log(`frames a second of an empty page: ${(await rest()).map((it) => it.toFixed(0)).join(" ")}`);
  await page.waitForSelector(".rows .row");
  await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Plot").click());
  await page.waitForFunction((wanted) => document.querySelector(".plot-host .chart")?.getAttribute("aria-label").includes(wanted), { timeout: 60_000 }, `${PLOTTED} sockets`);
  await new Promise((go) => setTimeout(go, MOMENTS_MS));
  const until = { over: false };
  const pointing = point(page, until);
  const seconds = await page.evaluate(watch, SECONDS);
  until.over = true;
  await pointing;
  for (const { frames, longest_ms } of seconds) console.log(`${frames.toFixed(1)} frames a second, longest wait ${longest_ms.toFixed(0)} ms`);
  const sorted = seconds.map((it) => it.frames).sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))].toFixed(1);
  console.log(`${PLOTTED} flows plotted: n = ${sorted.length} seconds, frames a second: median ${at(0.5)}, p5 ${at(0.05)}, least ${at(0)}`);
} finally {
  await browser.close();
}
