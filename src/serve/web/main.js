// The page's frame: which view is shown, how the stream stands, what is missing in what is shown.

import "uplot/dist/uPlot.min.css";
import "./style.css";

import { askForToken, useTokenOfAddress } from "./access.js";
import { AlgorithmsView } from "./algorithms.js";
import { element, setText } from "./dom.js";
import { FlowView } from "./flow.js";
import { clock, packets } from "./format.js";
import { IncidentsView, IncidentView } from "./incidents.js";
import { OverviewView } from "./overview.js";
import { Playback } from "./playback.js";
import { SocketsView } from "./sockets.js";
import { follow, Refused } from "./stream.js";
import { followTheme } from "./theme.js";
import { TrialView } from "./trial.js";
import { Trials } from "./trials.js";

const host = document.getElementById("view");
const playback = new Playback(document.getElementById("playback"));

/** What views share. */
const shell = {
  now_ms: 0,
  isPaused: false,
  missed: 0,
  /** The table of sockets as it was last seen, and its row: where one comes back to. */
  table: "#/sockets",
  chosen: null,
  playback: null,
  /** A moment of the host's clock as people say it: the time of day, or the time since a recording began. */
  timeOf(ms) {
    if (this.playback) return clock((ms - this.playback.begin_ms) / 1000);
    return new Date(Date.now() - this.now_ms + ms).toLocaleTimeString("en-GB");
  },
  trials: new Trials((known) => view?.seen?.(known)),
  pauseButton() {
    const button = element("button", { type: "button", "aria-pressed": String(this.isPaused), title: "Hold the picture still (p)",
      id: "pause", onclick: () => this.pause(!this.isPaused) }, "Pause");
    return button;
  },
  pause(isPaused) {
    this.isPaused = isPaused;
    document.getElementById("pause")?.setAttribute("aria-pressed", String(isPaused));
    if (isPaused) view?.hold();
    else view?.resume();
  },
};

let view = null;
let stop = new AbortController();

/** Addresses that have a view. */
const ADDRESSES = /^#\/(overview|sockets|algorithms|trial|incidents|flow\/\d+)/;

/** `#/flow/17` to its view; anything else to the overview. */
function makeView() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const words = new URLSearchParams(query ?? "");
  const socket = /^\/flow\/(\d+)$/.exec(path)?.[1];
  const incident = /^\/incidents\/([\w.:-]+)$/.exec(path)?.[1];
  document.title = "tccc";
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = socket === undefined && link.getAttribute("href") === `#${path}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (socket) return new FlowView(host, socket, shell);
  if (incident) return new IncidentView(host, incident);
  const views = { "/sockets": SocketsView, "/algorithms": AlgorithmsView, "/trial": TrialView, "/incidents": IncidentsView };
  return new (views[path] ?? OverviewView)(host, words, shell);
}

async function show() {
  stop.abort();
  stop = new AbortController();
  view?.close();
  view = null;
  shell.isPaused = false; // what was held still is gone
  if (!ADDRESSES.test(location.hash)) history.replaceState(null, "", "#/overview");
  const [shown, signal] = [makeView(), stop.signal];
  view = shown;
  if (shell.trials.latest) shown.seen?.(shell.trials.latest);
  try {
    // A view that has no stream of its own shows the status of the others.
    await follow(shown.path ?? "/api/stream/algorithms", signal, (kind, data) => take(shown, kind, data), say);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) askForToken(host, error.message, show);
    else say(error.message);
  }
}

function take(shown, kind, data) {
  if (kind === "missed") {
    shell.missed += data;
    return;
  }
  shell.now_ms = data.status.now_ms;
  shell.playback = data.status.playback;
  showStatus(data.status);
  if (shown === view) shown.take?.(kind, data);
}

function say(sentence) {
  const link = document.getElementById("link");
  setText(link, sentence);
  link.classList.toggle("broken", sentence !== "");
}

/** What is missing stands where the numbers stand. */
function showStatus(status) {
  setText(document.getElementById("title"), status.title);
  playback.show(status);
  const counted = [
    [status.dropped, "event that did", "events that did", "not fit between kernel and reader: steps in curves may be missing"],
    [status.untracked, "event", "events", "of sockets beyond what is followed"],
    [status.unnamed, "name", "names", "of processes and cgroups beyond what is kept"],
    [status.hidden, "process", "processes", "whose network namespace could not be looked at"],
    [shell.missed, "picture", "pictures", "skipped because this page was slow"],
  ];
  const missing = counted.filter(([count]) => count > 0);
  const sentences = missing.map(([count, one, many, what]) => `Missing: ${packets(count)} ${count === 1 ? one : many} ${what}.`);
  const warnings = document.getElementById("warnings");
  const said = [...sentences, ...status.notices.map((notice) => `${notice}.`)];
  if (warnings.dataset.said !== said.join("\n")) {
    warnings.dataset.said = said.join("\n");
    warnings.replaceChildren(...said.map((sentence) => element("p", {}, sentence)));
  }
}

function key(event) {
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const doings = {
    "/": () => document.getElementById("filter")?.focus(),
    p: () => shell.pause(!shell.isPaused),
    o: () => { location.hash = "#/overview"; },
    s: () => { location.hash = shell.table; },
    a: () => { location.hash = "#/algorithms"; },
    t: () => { if (shell.trials.latest?.trial) location.hash = "#/trial"; },
  };
  if (event.key in doings) {
    event.preventDefault();
    doings[event.key]();
  }
}

followTheme(document.getElementById("theme"), () => view?.recolour());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which view is shown
  host.focus();
});
addEventListener("hashchange", () => {
  show();
  (view.entry ?? host).focus();
});
addEventListener("keydown", key);
await useTokenOfAddress();
show();
shell.trials.run();
