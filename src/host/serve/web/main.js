// The frame of the page: the view, the state of the stream, and notices about missing data.

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

/** Shared by the views. */
const shell = {
  now_ms: 0,
  isPaused: false,
  missed: 0,
  /** Address and selected row of the table of sockets, to return to. */
  table: "#/sockets",
  chosen: null,
  playback: null,
  /** Formats a moment of the host's clock: the time of day, or the time since the start of a recording. */
  timeOf(ms) {
    if (this.playback) return clock((ms - this.playback.begin_ms) / 1000);
    return new Date(Date.now() - this.now_ms + ms).toLocaleTimeString("en-GB");
  },
  trials: new Trials((known) => view?.seen?.(known)),
  pauseButton() {
    const button = element("button", { type: "button", "aria-pressed": String(this.isPaused), title: "Pause updates (p)",
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

/** Valid addresses. */
const ADDRESSES = /^#\/(overview|sockets|algorithms|trial|incidents|flow\/\d+)/;

/** Creates the view of the address, or the overview. */
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
  shell.isPaused = false;
  if (!ADDRESSES.test(location.hash)) history.replaceState(null, "", "#/overview");
  const [shown, signal] = [makeView(), stop.signal];
  view = shown;
  if (shell.trials.latest) shown.seen?.(shell.trials.latest);
  try {
    // A view without a stream of its own still shows the status.
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

/** Shows the status, and what is missing from the numbers. */
function showStatus(status) {
  setText(document.getElementById("title"), status.title);
  playback.show(status);
  const counted = [
    [status.dropped, "event that did", "events that did", "not fit into the ring buffer: steps in curves may be missing"],
    [status.untracked, "event", "events", "of sockets beyond the limit"],
    [status.unnamed, "name", "names", "of processes and cgroups beyond the limit"],
    [status.hidden, "process", "processes", "whose network namespace could not be entered"],
    [shell.missed, "update", "updates", "skipped because this page was slow"],
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
  event.preventDefault(); // the hash of the address selects the view
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
