// Tests how the page shows a trial and incidents, with files as a guard writes them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FIXTURES = "tests/fixtures/trial";
const RECORDING = "tests/fixtures/recording-format-1.tccc";
const INCIDENT = "2026-02-27T09-14-05.000Z";
const SOON = { timeout: 20_000 };
/** Gives the server its own `/run`, which no other process sees. */
const SANDBOX = 'mount -t tmpfs none /run && mkdir -p /run/tccc/policy && mount --bind "$POLICY" /run/tccc/policy && exec "$@"';
const S = 1e9;

const fixture = async (name) => JSON.parse(await readFile(join(FIXTURES, `${name}.json`), "utf8"));

/** Nanoseconds since boot. */
async function boottime() {
  return Math.round(Number((await readFile("/proc/uptime", "utf8")).split(" ")[0]) * S);
}

/** Identifies a process as tccc does: by its start time too, because PIDs are reused. */
async function identity(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  return { pid, started: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]) };
}

/** A server that replays a recording, on a host with a running trial and a reverted one. */
export class TrialServer {
  static async start(tccc) {
    const server = new TrialServer();
    server.folder = await mkdtemp(join(tmpdir(), "tccc-trial-"));
    server.guard = spawn("sleep", ["600"], { stdio: "ignore" });
    const [policy, state] = ["policy", "state"].map((name) => join(server.folder, name));
    const incident = join(state, "incidents", INCIDENT);
    for (const folder of [policy, incident]) await mkdir(folder, { recursive: true });
    await cp(join(FIXTURES, "incident.json"), join(incident, "incident.json"));
    await cp(RECORDING, join(incident, "recording.tccc"));
    server.policy = policy;
    await server.#write(state, incident);
    await server.#serve(tccc, state);
    return server;
  }

  async #write(state, incident) {
    const [record, view, end] = await Promise.all(["record", "trial", "end"].map(fixture));
    const shift = (await boottime()) - 3 * S - view.now_ns;
    // This machine may have booted after the fixture's trial began.
    const moved = (time_ns) => Math.max(time_ns + shift, 1);
    const guard = await identity(this.guard.pid);
    Object.assign(record.trial, { guard, began_ns: moved(record.trial.began_ns) });
    for (const rule of record.trial.rules) rule.since_ns = moved(rule.since_ns);
    for (const key of ["began_ns", "now_ns", "lease_until_ns"]) view[key] = moved(view[key]);
    for (const rule of view.rules) rule.due_ns = moved(rule.due_ns);
    this.end_ = { ...end, incident };
    this.journal = join(state, "trials.jsonl");
    await this.#put(join(this.policy, "record.json"), JSON.stringify(record));
    await this.#put(join(this.policy, "trial.json"), JSON.stringify(view));
    await writeFile(this.journal, `${JSON.stringify(this.end_)}\n`);
  }

  async #put(path, text) {
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }

  async #serve(tccc, state) {
    const own = process.getuid() === 0 ? [] : ["--user", "--map-root-user"];
    const command = ["serve", "--listen", "127.0.0.1:0", "--replay", RECORDING, "--trials", "--refresh", "200ms"];
    this.server = spawn("unshare", [...own, "--mount", "sh", "-c", SANDBOX, "sh", tccc, ...command],
      { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, POLICY: this.policy, STATE_DIRECTORY: state } });
    this.url = await new Promise((found, lost) => {
      let said = "";
      this.server.stderr.on("data", (text) => {
        said += text;
        const address = /serving (http:\/\/[^,]+),/.exec(said)?.[1];
        if (address) found(address);
      });
      this.server.on("exit", () => lost(new Error(`the server ended: ${said}`)));
    });
  }

  /** The guard writes that the arms do not have their shares. */
  async break() {
    const path = join(this.policy, "trial.json");
    const view = JSON.parse(await readFile(path, "utf8"));
    const why_not = "the arms do not have the shares of the split, so they cannot be compared";
    for (const rule of view.rules) {
      rule.is_broken = true;
      rule.limits = rule.limits.map((limit) => ({ ...limit, ratio: null, interval: null, evidence: null, value: null, state: "undecided", why_not }));
    }
    view.now_ns += S;
    await this.#put(path, JSON.stringify(view));
  }

  /** Reverts the trial, as after a crossed limit. */
  async revert() {
    await rm(join(this.policy, "trial.json"));
    await rm(join(this.policy, "record.json"));
    const at = `${new Date().toISOString().slice(0, 19)}Z`;
    await writeFile(this.journal, `${JSON.stringify({ ...this.end_, at })}\n`);
  }

  async close() {
    this.server.removeAllListeners("exit");
    this.server.kill();
    this.guard.kill();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** The text of an element, with single spaces. */
const words = (page, selector) => page.$eval(selector, (node) => node.textContent.replace(/\s+/g, " ").trim());

async function says(page, selector, text) {
  await page.waitForFunction((where, what) => document.querySelector(where)?.textContent.includes(what), SOON, selector, text);
}

/** Pixels by which the page is wider than its window. */
const tooWide = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Tests the view of the running trial. `look` takes a screenshot and runs axe. */
export async function lookAtTrial(page, url, name, look) {
  await page.goto(`${url}/`);
  await page.waitForSelector("#trial:not([hidden]) a", SOON);
  assert.match(await words(page, "#trial"), /^On trial: the policyrule web: step 2 of 3, .* left$/);
  await look(`overview-on-trial-${name}`);
  await page.click("#trial a");
  await page.waitForSelector(".limit .u-wrap", SOON);
  assert.equal(await words(page, "h1"), "Trial: the policy");
  assert.match(await words(page, ".steps li[aria-current=step]"), /^▶ 5 % for 2 h \(now\)$/);
  assert.match(await words(page, ".then"), /Judged by the guard\. In .*it goes on until every limit is shown to hold; then the share rises to 50 %\./);
  assert.match(await words(page, ".facts.wide"), /Guardprocess \d+Leaserenewed by the guard/);
  assert.equal(await page.$eval('nav [aria-current="page"]', (link) => link.textContent), "Trial");
  const limits = await page.$$eval(".limit", (sections) => sections.map((it) => [it.querySelector("h3").textContent, it.querySelector(".state-of-limit").textContent, it.querySelectorAll(".chart").length]));
  assert.deepEqual(limits, [["dtcp: retransmitted<1.2x", "? Not decided yet.", 3], ["dtcp: goodput>0.9x", "✓ Shown to hold.", 3], ["dtcp: abnormal_ends<1%", "✓ Shown to hold.", 2]]);
  assert.match(await words(page, ".limit .says"), /Retransmitted is 1\.\d+ times that of keep, interval 0\.\d+ to 1\.\d+\. The e-value of harm is .* 180 decides\./);
  await look(`trial-${name}`);
  await page.$eval(".limit", (section) => section.scrollIntoView());
  await look(`trial-limit-${name}`);
  assert.ok((await tooWide(page)) <= 0, `${name}: the trial is too wide`);
  await page.focus(".limit .chart");
  for (const key of ["+", "ArrowLeft", "0"]) await page.keyboard.press(key);
}

export async function lookAtIncidents(page, url, name, look) {
  await page.goto(`${url}/#/incidents`);
  await page.waitForSelector("tbody a", SOON);
  await look(`incidents-${name}`);
  await page.focus("tbody a");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".limit .u-wrap", SOON);
  await says(page, ".notice", "crossed the limit retransmitted<1.2x");
  assert.match(await words(page, ".state-of-limit"), /✗ Crossed/);
  assert.match(await words(page, "main"), /tccc report .*incidents\/2026/);
  await look(`incident-${name}`);
  assert.ok((await tooWide(page)) <= 0, `${name}: the incident is too wide`);
  await page.goto(`${url}/#/incidents/no-such-incident`);
  await says(page, ".says", "There is no incident with that name.");
}

/** Runs last: a sample-ratio mismatch, then the end of the trial while its view is open. */
export async function lookAtTheEnd(page, server, look) {
  await page.goto(`${server.url}/#/trial`);
  await page.waitForSelector(".limit .u-wrap", SOON);
  await server.break();
  await page.waitForSelector(".rule > .notice:not([hidden])", SOON);
  assert.match(await words(page, ".limit .says"), /do not have the shares of the split/);
  await look("trial-broken");
  await server.revert();
  await page.waitForSelector(".ended:not([hidden])", SOON);
  assert.match(await words(page, ".ended"), /^RevertedThe trial of the policy is over\. It was reverted: rule "web": .*The incident/);
  assert.equal(await page.$eval("#nav-trial", (link) => link.hidden), true);
  assert.equal(await words(page, ".then"), "What the guard saw last:");
  await look("trial-reverted");
  await page.click(".ended a");
  await says(page, ".notice", "crossed the limit");
  await page.waitForSelector("#trial:not([hidden])", SOON);
  assert.match(await words(page, "#trial"), /^The trial of the policy is over/);
}
