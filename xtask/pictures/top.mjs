// The picture of `tccc top` over a recording: a terminal of `script`, drawn by xterm.js.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const [COLUMNS, ROWS] = [112, 24];
// Stops the replay, seeks to nine tenths and on to the end, selects the first row, and quits.
const KEYS = [" ", "9", "}}", "g", "q"];
// Time in which the dashboard answers a key: more than its refresh interval.
const ANSWER_MS = 1500;
const LEAVES = "\x1b[?1049l";
const THEME = { background: "#11161c", foreground: "#d8dee6" };

/** What the dashboard writes to its terminal before it restores the terminal. */
async function written({ TCCC, RECORDING }) {
  const command = `stty cols ${COLUMNS} rows ${ROWS}; exec ${TCCC} top --replay ${RECORDING}`;
  const env = { ...process.env, TERM: "xterm-256color" };
  delete env.NO_COLOR;
  const script = spawn("script", ["--quiet", "--flush", "--command", command, "/dev/null"], { env });
  let text = "";
  script.stdout.setEncoding("utf8").on("data", (part) => (text += part));
  for (const keys of KEYS) {
    await pause(ANSWER_MS);
    script.stdin.write(keys);
  }
  await new Promise((done) => script.on("close", done));
  return text.slice(0, text.lastIndexOf(LEAVES));
}

export async function pictureOfTop(page, environment) {
  const text = await written(environment);
  const xterm = createRequire(join(environment.PACKAGES, "x.js")).resolve("@xterm/xterm");
  await page.setViewport({ width: 1000, height: 500, deviceScaleFactor: 2 });
  await page.goto("about:blank");
  await page.addScriptTag({ path: xterm });
  await page.addStyleTag({ path: join(xterm, "../../css/xterm.css") });
  const draw = (text, options) => {
    const terminal = new Terminal(options);
    document.body.replaceChildren();
    terminal.open(document.body);
    return new Promise((done) => terminal.write(text, () => requestAnimationFrame(() => requestAnimationFrame(done))));
  };
  await page.evaluate(draw, text, { cols: COLUMNS, rows: ROWS, fontSize: 14, theme: THEME, cursorInactiveStyle: "none" });
  const screen = await page.$(".xterm-screen");
  return screen.screenshot({ path: join(environment.PICTURES, "top.webp"), quality: 60 });
}
