// One socket over time: window, round-trip time, goodput, and the private state of its algorithm.

import { Chart, Span } from "./chart.js";
import { csv } from "./csv.js";
import { download, element, setText } from "./dom.js";
import * as format from "./format.js";
import { Flow } from "./store.js";

const SPANS = [[10, "10 s"], [30, "30 s"], [60, "1 min"], [120, "2 min"], [Infinity, "all"]];
const FIRST_SPAN = 60;
/** Rows of the table of last moments. */
const LAST = 20;
const UNKNOWN = "This connection is not known: it ended a while ago, has not started yet, or is not watched.";

const FACTS = [
  ["Process", (it) => it.process], ["cgroup", (it) => it.cgroup_path], ["Algorithm", (it) => it.algorithm],
  ["Rule", (it) => (it.rule == null ? null : `${it.rule}, arm ${it.arm}`)],
  ["Phase", (it) => it.phase], ["State", (it) => it.ca_state + (it.app_limited ? ", app limited" : "")],
  ["cwnd", (it) => `${format.packets(it.cwnd_pkts)} pkts`], ["ssthresh", (it) => (it.ssthresh_pkts == null ? null : `${format.packets(it.ssthresh_pkts)} pkts`)],
  ["In flight", (it) => `${format.packets(it.inflight_pkts)} pkts`], ["srtt", (it) => format.time(it.srtt_us)],
  ["min_rtt", (it) => format.time(it.min_rtt_us)], ["rto", (it) => format.time(it.rto_us)],
  ["Goodput", (it) => format.rate(it.goodput_bps)], ["Received", (it) => format.rate(it.received_bps)],
  ["Pacing", (it) => (it.pacing_rate_bps == null ? "unlimited" : format.rate(it.pacing_rate_bps))],
  ["Retrans", (it) => format.share(it.retrans_ratio)], ["Retransmitted", (it) => `${format.packets(it.retrans_pkts)} of ${format.packets(it.delivered_pkts + it.retrans_pkts)} pkts`],
  ["Marked lost", (it) => `${format.packets(it.lost_pkts)} pkts`], ["CE-marked", (it) => `${format.packets(it.delivered_ce_pkts)} pkts`],
  ["Acknowledged", (it) => format.bytes(it.bytes_acked)], ["Received so far", (it) => format.bytes(it.bytes_received)],
  ["mss", (it) => format.bytes(it.mss_bytes)],
];

export class FlowView {
  constructor(host, id, shell) {
    this.path = `/api/stream/flow/${encodeURIComponent(id)}`;
    this.shell = shell;
    shell.chosen = id;
    this.live = new Flow();
    this.flow = this.live;
    this.span = new Span(FIRST_SPAN);
    this.#build(host);
  }

  close() {
    this.charts.forEach((chart) => chart.close());
  }

  recolour() {
    this.charts.forEach((chart) => chart.recolour());
  }

  hold() {
    this.flow = this.live.copy();
  }

  resume() {
    this.flow = this.live;
    this.#show();
  }

  take(kind, frame) {
    this.live.take(kind, frame);
    if (!this.shell.isPaused) this.#show();
  }

  #build(host) {
    this.heading = element("h1", {}, "Connection");
    this.says = element("p", { class: "says", role: "status" }, "Loading…");
    const choice = element("select", { id: "span", onchange: () => this.#choose(Number(choice.value)) },
      ...SPANS.map(([seconds, name]) => element("option", { value: seconds, selected: seconds === FIRST_SPAN }, name)));
    const toolbar = element("div", { class: "toolbar" }, element("a", { href: this.shell.table, class: "back" }, "← Sockets"),
      element("label", { for: "span" }, "Show"), choice, this.span.buttons(),
      element("button", { type: "button", onclick: () => this.#export() }, "CSV"), this.shell.pauseButton());
    const charts = element("div", { class: "charts" });
    this.facts = new Map(FACTS.map(([name]) => [name, element("dd", {}, format.NOTHING)]));
    const facts = element("dl", { class: "facts" },
      ...FACTS.map(([name]) => element("div", {}, element("dt", {}, name), this.facts.get(name))));
    this.state = element("tbody", {});
    this.stateTable = element("section", { class: "state", hidden: true }, element("h2", {}, "State of the algorithm"),
      element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Field"), element("th", { scope: "col" }, "Value"))), this.state));
    this.last = element("tbody", {});
    this.lastTable = element("details", { ontoggle: () => this.#showLast() }, element("summary", {}, `The last ${LAST} moments as a table`),
      element("table", {}, element("thead", {}, element("tr", {}, ...["Time", "cwnd", "ssthresh", "In flight", "srtt", "min_rtt", "Goodput", "Phase", "State"]
        .map((name) => element("th", { scope: "col" }, name)))), this.last));
    host.replaceChildren(this.heading, toolbar, this.says,
      element("div", { class: "flow" }, charts, element("aside", { "aria-label": "Latest values" }, facts, this.stateTable)), this.lastTable);
    this.charts = this.#charts(charts);
  }

  #charts(host) {
    const look = { bands: () => this.#bands(), marks: () => this.#marks() };
    const [span, packets] = [this.span, format.packets];
    return [
      new Chart(host, { title: "Window, packets", span, look, show: packets, series: [
        { label: "cwnd", colour: "cwnd", show: packets, width: 2 }, { label: "ssthresh", colour: "ssthresh", show: packets, dash: [6, 4] },
        { label: "in flight", colour: "inflight", show: packets, width: 1 }] }),
      new Chart(host, { title: "Round-trip time", span, look: { marks: look.marks }, show: format.time, series: [
        { label: "srtt", colour: "srtt", show: format.time, width: 2 }, { label: "min_rtt", colour: "min-rtt", show: format.time, dash: [6, 4] }] }),
      new Chart(host, { title: "Goodput", span, look: { marks: look.marks }, show: format.rate, series: [
        { label: "goodput", colour: "goodput", show: format.rate, width: 2 }] }),
    ];
  }

  #choose(seconds) {
    this.span.seconds = seconds;
    this.span.fix(null, null);
  }

  #seconds(time_ms) {
    return (time_ms - this.flow.socket.first_ms) / 1000;
  }

  /** Times of equal phase, or of equal congestion state if the algorithm has no phases. */
  #bands() {
    const { time_ms, phase, ca_state } = this.flow.moments;
    const has = this.flow.phases.size > 0;
    const values = has ? phase : ca_state;
    const numbers = new Map(has ? [...this.flow.phases.keys()].map((value, at) => [value, at]) : [["Open", 0], ["Disorder", 1], ["CWR", 2], ["Recovery", 3], ["Loss", 4]]);
    const bands = [];
    values.forEach((value, at) => {
      const time = this.#seconds(time_ms[at]);
      const last = bands[bands.length - 1];
      if (last) last.end = time;
      const isPlain = !has && value === "Open";
      if (last?.value !== value) bands.push({ value, begin: time, end: time, name: isPlain ? "" : has ? this.flow.phases.get(value) ?? String(value) : value, number: numbers.get(value) ?? 5, isPlain });
    });
    return bands.filter((band) => !band.isPlain);
  }

  #marks() {
    return this.flow.marks.map(({ time_ms, kind }) => ({ time: this.#seconds(time_ms), kind }));
  }

  #show() {
    setText(this.says, this.flow.socket ? "" : UNKNOWN);
    if (this.flow.socket) this.#showKnown();
    else this.#showNothing();
    this.#showState();
    this.#showLast();
  }

  #showNothing() {
    setText(this.heading, "Connection");
    for (const fact of this.facts.values()) setText(fact, format.NOTHING);
    this.charts.forEach((chart) => chart.set([[], ...chart.series.map(() => [])], "nothing is known"));
  }

  #showKnown() {
    const { socket, moments } = this.flow;
    const closed = socket.closed_ms === null ? "" : " (closed)";
    setText(this.heading, `${socket.local} → ${socket.remote}${closed}`);
    document.title = `${socket.remote} · tccc`;
    for (const [name, value] of FACTS) setText(this.facts.get(name), value(socket) ?? format.NOTHING);
    const times = moments.time_ms.map((time) => this.#seconds(time));
    this.span.first = times[0];
    this.span.end = Math.max(times[times.length - 1] ?? 0, this.#seconds(socket.closed_ms ?? this.shell.now_ms));
    const [window_, rtt, goodput] = this.charts;
    window_.set([times, moments.cwnd_pkts, moments.ssthresh_pkts, moments.inflight_pkts], `cwnd ${format.packets(socket.cwnd_pkts)} packets`);
    rtt.set([times, moments.srtt_us, moments.min_rtt_us], `srtt ${format.time(socket.srtt_us)}`);
    goodput.set([times, moments.goodput_bps], format.rate(socket.goodput_bps));
  }

  #showState() {
    const fields = this.flow.state;
    this.stateTable.hidden = fields.length === 0;
    while (this.state.children.length > fields.length) this.state.lastChild.remove();
    fields.forEach(([name, value], at) => {
      const row = this.state.children[at] ?? this.state.appendChild(element("tr", {}, element("th", { scope: "row" }), element("td", {})));
      setText(row.children[0], name);
      setText(row.children[1], value);
    });
  }

  #showLast() {
    if (!this.lastTable.open) return;
    const { time_ms, ...columns } = this.flow.moments;
    const from = Math.max(0, time_ms.length - LAST);
    const rows = time_ms.slice(from).map((time, place) => {
      const at = (name) => columns[name][from + place];
      const cells = [`${this.#seconds(time).toFixed(2)} s`, format.packets(at("cwnd_pkts")), format.packets(at("ssthresh_pkts")), format.packets(at("inflight_pkts")),
        format.time(at("srtt_us")), format.time(at("min_rtt_us")), format.rate(at("goodput_bps")), this.flow.phases.get(at("phase")) ?? format.NOTHING, at("ca_state")];
      return element("tr", {}, ...cells.map((text) => element("td", {}, text)));
    });
    this.last.replaceChildren(...rows.reverse());
  }

  #export() {
    const { moments, phases, socket } = this.flow;
    if (!socket) return;
    const [begin, end] = this.span.range;
    const names = Object.keys(moments);
    const rows = moments.time_ms.map((time, at) => names.map((name) => (name === "phase" ? phases.get(moments.phase[at]) ?? null : moments[name][at])));
    const seen = rows.filter((row) => this.#seconds(row[0]) >= begin && this.#seconds(row[0]) <= end);
    download(`tccc-flow-${socket.id}.csv`, csv(names, seen));
  }
}
