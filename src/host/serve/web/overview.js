// The overview: five figures for all connections, each algorithm and each arm, now and in the last hour.

import { Chart, Span } from "./chart.js";
import { COLOURS, firstFree } from "./colours.js";
import { csv } from "./csv.js";
import { download, element, setText } from "./dom.js";
import * as format from "./format.js";
import { BASELINE, FIGURES, groups, Hour, latest } from "./hour.js";
import { colour } from "./theme.js";

const HOUR_S = 3600;
const CHART_PX = 150;
/** Tolerated drift between the clocks of the page and the host. */
const DRIFT_MS = 2000;
/** Name, heading, description and format of a column. */
const SHOWN = [
  ["goodput_bps", "Goodput", "Payload acknowledged per second, over all connections of the row", format.rate],
  ["retrans_ratio", "Retransmitted", "Share of the data segments that were retransmissions", format.share],
  ["rtt_p50_us", "RTT p50", "Median smoothed RTT of the connections that delivered data", format.time],
  ["rtt_p95_us", "RTT p95", "95th percentile of the smoothed RTT of the connections that delivered data", format.time],
  ["sockets", "Connections", "Open connections", format.packets],
];
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3]];
const OTHERS = { other_algorithms: "other algorithms", other_arms: "other arms" };

const nameOf = (line) => line.algorithm ?? line.arm ?? OTHERS[line.kind] ?? "All connections";

export class OverviewView {
  path = "/api/stream/overview";

  constructor(host, words, shell) {
    this.shell = shell;
    this.live = new Hour();
    this.hour = this.live;
    this.panels = new Map();
    this.span = new Span(HOUR_S);
    this.says = element("p", { class: "says", role: "status" }, "Loading…");
    this.toolbar = element("div", { class: "toolbar" }, this.span.buttons(), element("button", { type: "button", onclick: () => this.#export() }, "CSV"), shell.pauseButton());
    this.changes = element("ol", { class: "changes", "aria-label": "Changes in the last hour" });
    this.place = element("div", { class: "panels" });
    host.replaceChildren(element("h1", { class: "quiet" }, "Overview"), this.toolbar, this.says, this.changes, this.place);
  }

  close() {
    this.panels.forEach((panel) => panel.close());
  }

  recolour() {
    this.panels.forEach((panel) => panel.recolour());
  }

  hold() {
    this.hour = this.live.copy();
  }

  resume() {
    this.hour = this.live;
    this.#show();
  }

  /** Notes which rules are on trial. */
  seen({ trial }) {
    this.tried = new Set(trial?.rules.map((rule) => rule.rule));
    this.panels.forEach((panel) => panel.showTrial());
  }

  take(kind, frame) {
    this.live.take(kind, frame);
    const { playback, now_ms } = frame.status;
    this.isRecording = playback !== null;
    this.now_ms = now_ms;
    const offset_ms = playback ? -playback.begin_ms : Date.now() - now_ms;
    if (!(Math.abs(offset_ms - this.offset_ms) < DRIFT_MS)) this.offset_ms = offset_ms;
    if (!this.shell.isPaused) this.#show();
  }

  /** Formats a moment of the charts: the time of day, or the time since the start of a recording. */
  moment(seconds) {
    if (this.isRecording) return format.clock(seconds);
    return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  }

  /** Converts to seconds of the charts, which follow the time of day so that the grid lies on full minutes. */
  #seconds(ms) {
    return (ms + this.offset_ms) / 1000;
  }

  #show() {
    const { hour } = this;
    const times = hour.times(this.now_ms).map((ms) => this.#seconds(ms));
    const lines = [...hour.lines.values()];
    const length_s = times[times.length - 1] - times[0] + hour.step_ms / 1000;
    const isYoung = length_s < HOUR_S - 60 && !this.isRecording;
    setText(this.says, lines.length === 0 ? "No connection has been counted yet." : isYoung ? `Counting for ${format.clock(length_s)}. The last hour is kept.` : "");
    [this.span.first, this.span.end] = [times[0], times[times.length - 1]];
    this.#showChanges();
    const wanted = groups(lines);
    for (const [name, panel] of this.panels) {
      if (wanted.has(name)) continue;
      panel.close();
      this.panels.delete(name);
    }
    for (const [name, group] of wanted) {
      if (!this.panels.has(name)) this.panels.set(name, new Panel(this.place, group, this));
      this.panels.get(name).show(group.lines, times);
    }
  }

  #showChanges() {
    const { changes } = this.hour;
    this.marks = changes.map(([ms]) => ({ time: this.#seconds(ms), kind: "change" }));
    const said = changes.map(([ms, what]) => [this.moment(this.#seconds(ms)), what]);
    const key = JSON.stringify(said);
    if (key === this.saidChanges) return;
    this.saidChanges = key;
    this.changes.replaceChildren(...said.reverse().map(([at, what]) => element("li", {}, element("time", {}, at), ` ${what}`)));
  }

  #export() {
    const times = this.hour.times(this.now_ms);
    const rows = [...this.hour.lines.values()].flatMap((line) =>
      times.map((ms, at) => [line.kind, line.algorithm, line.rule, line.arm, ms + this.offset_ms, ...FIGURES.map((name) => line[name][at])]));
    download("tccc-overview.csv", csv(["kind", "algorithm", "rule", "arm", "time_ms", ...FIGURES], rows));
  }
}

/** A table of the figures now, and a chart for each of them. */
class Panel {
  constructor(host, { title, rule }, view) {
    Object.assign(this, { view, rule, styles: new Map(), rows: new Map() });
    this.body = element("tbody", {});
    const heads = [rule === undefined ? "Algorithm" : "Arm", ...SHOWN.map(([, head]) => head)];
    const head = (name, at) => element("th", { scope: "col", class: at > 0 ? "number" : "", title: SHOWN[at - 1]?.[2] }, name);
    const table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title} now` },
      element("table", { class: "now" }, element("thead", {}, element("tr", {}, ...heads.map(head))), this.body));
    const place = element("div", { class: "multiples" });
    this.places = place;
    this.trial = element("a", { href: "#/trial", class: "trial", hidden: true }, "on trial");
    this.section = element("section", {}, element("h2", {}, title, " ", this.trial), table, place);
    host.append(this.section);
    this.showTrial();
    const look = { marks: () => view.marks };
    const moment = (seconds) => view.moment(seconds);
    this.charts = SHOWN.map(([, name, , show]) =>
      new Chart(place, { title: name, span: view.span, look, show, series: [], legend: false, height: CHART_PX, moment, isSparse: true }));
  }

  close() {
    this.charts.forEach((chart) => chart.close());
    this.section.remove();
  }

  recolour() {
    this.charts.forEach((chart) => chart.recolour());
    this.#paint();
  }

  showTrial() {
    this.trial.hidden = !this.view.tried?.has(this.rule);
  }

  show(lines, times) {
    const curves = lines.filter((line) => line.kind !== "host");
    this.#style(curves);
    // With one algorithm, the line of all connections would be the same.
    this.#showNow(curves.length === 1 ? curves : lines);
    const series = (show) => curves.map((line) => ({ label: nameOf(line), show, width: line.arm === BASELINE ? 1.5 : 2, ...this.styles.get(line.id) }));
    const shape = curves.map((line) => line.id).join();
    SHOWN.forEach(([column, , , show], at) => {
      if (shape !== this.shape) this.charts[at].relist(series(show));
      const words = curves.map((line) => `${nameOf(line)} ${show(latest(line[column]))}`).join(", ");
      this.charts[at].set([times, ...curves.map((line) => line[column])], words);
    });
    if (shape !== this.shape) this.#paint();
    this.shape = shape;
    this.places.hidden = curves.length === 0;
  }

  /** Assigns a style to each new line. A line keeps its style. */
  #style(curves) {
    const there = new Set(curves.map((line) => line.id));
    for (const id of this.styles.keys()) if (!there.has(id)) this.styles.delete(id);
    for (const line of curves) {
      if (this.styles.has(line.id)) continue;
      const number = firstFree(new Set([...this.styles.values()].map((style) => style.number)));
      const dash = line.arm === BASELINE ? DASHES[1] : DASHES[Math.floor(number / COLOURS.length) % DASHES.length];
      this.styles.set(line.id, { number, colour: COLOURS[number % COLOURS.length], dash });
    }
  }

  #showNow(lines) {
    const there = new Set(lines.map((line) => line.id));
    for (const [id, row] of this.rows) {
      if (there.has(id)) continue;
      row.remove();
      this.rows.delete(id);
    }
    lines.forEach((line, place) => {
      if (!this.rows.has(line.id)) this.rows.set(line.id, this.#newRow(line));
      const row = this.rows.get(line.id);
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
      SHOWN.forEach(([column, , , show], at) => setText(row.children[at + 1], show(latest(line[column]))));
    });
  }

  #newRow(line) {
    const name = nameOf(line);
    const filter = line.algorithm !== null ? `algorithm:${line.algorithm}` : line.arm !== null ? `rule:${line.rule} arm:${line.arm}` : line.kind === "host" ? "" : null;
    const query = filter ? `?${new URLSearchParams({ filter })}` : "";
    const label = filter === null ? name : element("a", { href: `#/sockets${query}`, title: "Its connections" }, name);
    const swatch = element("canvas", { class: "swatch", width: 44, height: 20, "aria-hidden": "true", "data-line": line.id });
    const note = line.arm === BASELINE ? element("span", { class: "count" }, " baseline") : null;
    return element("tr", {}, element("th", { scope: "row" }, swatch, label, note), ...SHOWN.map(([, head]) => element("td", { class: "number", "data-label": head })));
  }

  /** Draws each line's colour and dashes beside its name. This is the legend of the charts. */
  #paint() {
    for (const [id, row] of this.rows) {
      const canvas = row.querySelector(".swatch");
      const style = this.styles.get(id);
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      if (!style) continue;
      pen.strokeStyle = colour(style.colour);
      pen.lineWidth = 4;
      pen.setLineDash(style.dash.map((length) => length * 2));
      pen.beginPath();
      pen.moveTo(0, canvas.height / 2);
      pen.lineTo(canvas.width, canvas.height / 2);
      pen.stroke();
    }
  }
}
