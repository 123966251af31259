// The algorithms side by side, each with the sums over its sockets.

import { csv } from "./csv.js";
import { download, element, setText } from "./dom.js";
import * as format from "./format.js";

const STATES = ["Open", "Disorder", "CWR", "Recovery", "Loss"];
const HEADINGS = ["Algorithm", "Sockets", "Goodput", "Received", "Retrans", "RTT p50", "RTT p95", "RTT of the last minute", "States", "Per call"];

export class AlgorithmsView {
  path = "/api/stream/algorithms";

  constructor(host, words, shell) {
    this.shell = shell;
    this.body = element("tbody", {});
    this.says = element("p", { class: "says", role: "status" });
    const heads = HEADINGS.map((name, at) => element("th", { scope: "col", class: isNumber(at) ? "number" : "" }, name));
    const toolbar = element("div", { class: "toolbar" }, element("button", { type: "button", onclick: () => this.#export() }, "CSV"), shell.pauseButton());
    const table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Algorithms" },
      element("table", { class: "algorithms" }, element("thead", {}, element("tr", {}, ...heads)), this.body));
    host.replaceChildren(element("h1", { class: "quiet" }, "Algorithms"), toolbar, this.says, table);
  }

  close() {}

  recolour() {}

  hold() {}

  take(kind, frame) {
    this.latest = frame;
    if (!this.shell.isPaused) this.resume();
  }

  resume() {
    if (!this.latest) return;
    this.frame = this.latest;
    const { algorithms, bounds_us } = this.frame;
    setText(this.says, algorithms.length ? "" : "No connection has been seen yet.");
    const seen = new Set(algorithms.map((it) => it.algorithm));
    for (const row of [...this.body.children]) if (!seen.has(row.dataset.name)) row.remove();
    algorithms.forEach((it, place) => {
      let row = [...this.body.children].find((node) => node.dataset.name === it.algorithm);
      row ??= newRow(it.algorithm);
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
      fill(row, it, bounds_us);
    });
  }

  #export() {
    const names = ["algorithm", "sockets", "goodput_bps", "received_bps", "retrans_ratio", "rtt_p50_us", "rtt_p95_us", ...STATES.map((it) => `sockets_${it}`), "ns_per_call"];
    const rows = (this.frame?.algorithms ?? []).map((it) =>
      [it.algorithm, it.sockets, it.goodput_bps, it.received_bps, it.retrans_ratio, it.rtt_p50_us, it.rtt_p95_us, ...it.ca_states, it.ns_per_call]);
    download("tccc-algorithms.csv", csv(names, rows));
  }
}

/** All columns except the name, the histogram and the states. */
function isNumber(at) {
  return at > 0 && at !== 7 && at !== 8;
}

function newRow(name) {
  const filter = new URLSearchParams({ filter: `algorithm:${name}` });
  const head = element("th", { scope: "row" }, element("a", { href: `#/sockets?${filter}`, title: "Its sockets" }, name));
  const row = element("tr", {}, head, ...HEADINGS.slice(1).map((_, at) => element("td", { class: isNumber(at + 1) ? "number" : "" })));
  row.dataset.name = name;
  return row;
}

function fill(row, it, bounds_us) {
  const texts = [format.packets(it.sockets), format.rate(it.goodput_bps), format.rate(it.received_bps), format.share(it.retrans_ratio), format.time(it.rtt_p50_us), format.time(it.rtt_p95_us)];
  texts.forEach((text, at) => setText(row.children[at + 1], text));
  const states = STATES.map((name, at) => [name, it.ca_states[at]]).filter(([, count]) => count > 0);
  setText(row.children[8], states.map(([name, count]) => `${name} ${format.packets(count)}`).join(", ") || format.NOTHING);
  setText(row.children[9], it.ns_per_call === null ? format.NOTHING : `${it.ns_per_call.toFixed(0)} ns`);
  row.children[9].title = it.callback_ns.map(([name, ns]) => `${name} ${ns.toFixed(0)} ns`).join("\n");
  drawHistogram(row.children[7], it.rtt_counts, bounds_us);
}

/** Draws an SVG bar for each bin from the first to the last that is not empty. */
function drawHistogram(cell, counts, bounds_us) {
  const first = counts.findIndex((count) => count > 0);
  if (first < 0) return setText(cell, format.NOTHING);
  const last = counts.findLastIndex((count) => count > 0);
  const [from, to] = [Math.max(0, first - 1), Math.min(counts.length - 1, last + 1)];
  const shown = counts.slice(from, to + 1);
  const highest = Math.max(...shown);
  const svg = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    return node;
  };
  const bound = (at) => (at < bounds_us.length ? `to ${format.time(bounds_us[at])}` : `above ${format.time(bounds_us[bounds_us.length - 1])}`);
  const label = `most round-trip times ${bound(counts.indexOf(highest))}`;
  const picture = svg("svg", { viewBox: `0 0 ${shown.length * 8} 28`, width: shown.length * 8, height: 28, role: "img", "aria-label": label });
  shown.forEach((count, at) => {
    const height = count === 0 ? 0 : Math.max(1, (count / highest) * 27);
    const bar = svg("rect", { x: at * 8 + 1, y: 28 - height, width: 6, height, class: "bar" });
    const title = svg("title", {});
    title.textContent = `${bound(from + at)}: ${format.packets(count)}`;
    bar.append(title);
    picture.append(bar);
  });
  picture.append(svg("rect", { x: 0, y: 27.5, width: shown.length * 8, height: 0.5, class: "base" }));
  const ends = element("span", { class: "ends" }, `${format.time(bounds_us[from] ?? 0)} … ${format.time(bounds_us[Math.min(to, bounds_us.length - 1)])}`);
  cell.replaceChildren(picture, ends);
  return undefined;
}
