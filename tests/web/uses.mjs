// Uses the page with a recording as people do. Each use has failed before.

import assert from "node:assert/strict";

/** Number of sockets known this many seconds after the start of the recording. `socket` is one of the later ones. */
const EARLY = { seconds: 3, sockets: 16 };
const LATE = { seconds: 9, sockets: 24, socket: "6978" };
const SOON = { timeout: 10_000 };

/** Start time of the recording, from the status in the stream. */
async function beginning(url) {
  const stop = new AbortController();
  const answer = await fetch(`${url}/api/stream/flow/1`, { signal: stop.signal });
  const { value } = await answer.body.getReader().read();
  stop.abort();
  return JSON.parse(new TextDecoder().decode(value).split("data: ")[1].split("\n")[0]).status.playback.begin_ms;
}

class User {
  constructor(page, url, begin_ms) {
    Object.assign(this, { page, url, begin_ms });
  }

  play(wanted) {
    return this.page.evaluate((body) => fetch("/api/playback", { method: "POST", body }), JSON.stringify(wanted));
  }

  /** Pauses the recording at a moment, and waits until the page shows it. */
  async seek({ seconds }) {
    await this.play({ speed: 0, seek_ms: this.begin_ms + seconds * 1000 });
    await this.page.waitForFunction((begin) => document.querySelector("#playback output").textContent.startsWith(begin), SOON, `${seconds} s of`);
  }

  /** Opens a view as a link does. */
  async open(hash, selector) {
    await this.page.evaluate((to) => { location.hash = to; }, hash);
    await this.page.waitForSelector(selector, SOON);
  }

  /** Opens the table, and waits until it has this many sockets. */
  async openTable(words, { sockets }) {
    await this.open(`#/sockets${words}`, ".rows .row");
    await this.says(".count", `${sockets} sockets`);
  }

  says(selector, text) {
    const holds = (where, what) => document.querySelector(where)?.textContent.includes(what);
    return this.page.waitForFunction(holds, SOON, selector, text);
  }

  /** Class, id or tag name of the element with the keyboard focus. */
  keys() {
    return this.page.evaluate(() => document.activeElement.className || document.activeElement.id || document.activeElement.tagName);
  }

  click(label) {
    return this.page.evaluate((text) => [...document.querySelectorAll("main button")].find((it) => it.textContent === text).click(), label);
  }

  rows() {
    return this.page.$$eval(".rows .row", (rows) => rows.map((row) => row.textContent).sort());
  }

  async csv() {
    await this.click("CSV");
    return this.page.evaluate(() => globalThis.exported);
  }
}

/** Keeps exported files in the page instead of downloading them. */
async function keepFiles(page) {
  const session = await page.createCDPSession();
  await session.send("Browser.setDownloadBehavior", { behavior: "deny" });
  await page.evaluate(() => {
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      globalThis.exported = blob.text();
      return make(blob);
    };
  });
}

/** Regression: the next view was empty until Pause was pressed again. */
async function pauseEndsWithTheView(user) {
  await user.openTable("", EARLY);
  await user.click("Pause");
  await user.open("#/algorithms", ".algorithms tbody tr");
  assert.equal(await user.page.$eval("#pause", (button) => button.getAttribute("aria-pressed")), "false");
}

/** Regression: scrolling or sorting changed the rows of a paused table, and the exported file differed from it. */
async function pauseHoldsTheTable(user) {
  await user.openTable("", EARLY);
  await user.click("Pause");
  const [rows, file] = [await user.rows(), await user.csv()];
  await user.seek(LATE);
  await user.page.click('[data-column="cwnd"]');
  await user.page.click('[data-column="goodput"]');
  assert.deepEqual([await user.rows(), await user.csv()], [rows, file]);
  await user.click("Pause");
  await user.says(".count", `${LATE.sockets} sockets`);
}

/** Regression: after a seek to before the socket began, its later values stayed on the page. */
async function flowThatIsYetToBeginIsEmpty(user, picture) {
  await user.seek(LATE);
  await user.open(`#/flow/${LATE.socket}`, ".u-wrap");
  await user.says("h1", "→");
  await user.seek(EARLY);
  await user.says(".says", "is not known");
  assert.deepEqual(await user.page.$$eval(".facts dd", (facts) => facts.map((it) => it.textContent).filter((it) => it !== "–")), []);
  assert.match(await user.page.$eval(".chart", (chart) => chart.getAttribute("aria-label")), /nothing is known/);
  await picture("flow-yet-to-begin");
  await user.seek(LATE);
  await user.says("h1", "→");
}

/** Regression: the skip link led out of every view to the table. */
async function skipLinkStaysInTheView(user) {
  const hash = `#/flow/${LATE.socket}`;
  await user.open(hash, ".u-wrap");
  await user.page.focus(".skip");
  await user.page.keyboard.press("Enter");
  assert.deepEqual([new URL(user.page.url()).hash, await user.keys()], [hash, "view"]);
}

/** Regression: the keyboard focus, the filter, the order and the selected row were lost. */
async function wayBackLeadsToTheRow(user, picture) {
  await user.open("#/sockets?filter=algorithm:reno&sort=cwnd", ".rows .row");
  await user.page.focus(".grid");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await user.page.keyboard.press(key);
  const chosen = () => user.page.$$eval('.row[aria-selected="true"]', (rows) => rows.map((row) => row.dataset.id));
  const row = await chosen();
  await user.page.keyboard.press("Enter");
  await user.page.waitForSelector(".back", SOON);
  assert.equal(await user.keys(), "view");
  await user.page.focus(".back");
  await user.page.keyboard.press("Enter");
  await user.page.waitForSelector('.row[aria-selected="true"]', SOON);
  assert.deepEqual([await chosen(), await user.keys()], [row, "grid"]);
  assert.match(user.page.url(), /filter=algorithm%3Areno&sort=cwnd$/);
  await picture("sockets-come-back-to");
}

/** Regression: each new or closed socket took the keyboard focus. After a seek backwards, curves ran to the left. */
async function plotKeepsTheKeys(user, picture) {
  await user.seek(EARLY);
  await user.openTable("", EARLY);
  await user.click("Plot");
  await user.page.focus(".plot-host .chart");
  for (const moment of [LATE, EARLY]) {
    await user.seek(moment);
    await user.says(".plot-host .count", `${moment.sockets} sockets`);
    assert.equal(await user.keys(), "chart");
  }
  await user.play({ speed: 1 });
  await user.says("#playback output", `${EARLY.seconds + 3} s of`);
  await picture("plot-of-time-set-back");
}

/** Regression: the menu showed speed 1 whatever had been chosen. */
async function speedIsWhatIsPlayed(user) {
  for (const speed of ["10", "3"]) {
    await user.play({ speed: Number(speed) });
    await user.page.reload();
    await user.page.waitForFunction((wanted) => document.querySelector("#playback select").value === wanted, SOON, speed);
  }
}

/** `picture(name)` takes a screenshot. */
export async function useEverything(page, url, picture) {
  const user = new User(page, url, await beginning(url));
  await keepFiles(page);
  await user.seek(EARLY);
  for (const use of [pauseEndsWithTheView, pauseHoldsTheTable, flowThatIsYetToBeginIsEmpty, skipLinkStaysInTheView, wayBackLeadsToTheRow, plotKeepsTheKeys, speedIsWhatIsPlayed]) {
    await use(user, picture).catch((error) => { throw new Error(use.name, { cause: error }); });
  }
  await user.play({ speed: 1, seek_ms: user.begin_ms + LATE.seconds * 1000 });
}
