// The windows of the first two hundred sockets of the list, together in one chart.

import { Chart, Span } from "./chart.js";
import { element, setText } from "./dom.js";
import * as format from "./format.js";

const PLOTTED_MAX = 200;
const MOMENTS_MAX = 600;
const COLOURS = ["cwnd", "srtt", "goodput", "ssthresh", "inflight", "loss", "timeout"];
const QUANTITIES = {
  cwnd: ["cwnd, packets", (row) => row.cwnd_pkts, format.packets],
  srtt: ["srtt", (row) => row.srtt_us, format.time],
  goodput: ["Goodput", (row) => row.goodput_bps, format.rate],
};

export class Plot {
  constructor(host) {
    this.host = host;
    this.quantity = "cwnd";
    this.span = new Span(60);
    this.begin_ms = null;
    this.says = element("p", { class: "count" });
    this.choice = element("select", { id: "quantity", onchange: () => this.#choose() },
      ...Object.entries(QUANTITIES).map(([name, [label]]) => element("option", { value: name }, label)));
    this.place = element("div", {});
    host.replaceChildren(element("div", { class: "toolbar" }, element("label", { for: "quantity" }, "Plot of"), this.choice, this.span.buttons(), this.says), this.place);
    this.#clear();
  }

  close() {
    this.chart?.close();
    this.host.replaceChildren();
  }

  recolour() {
    this.chart?.recolour();
  }

  #choose() {
    this.quantity = this.choice.value;
    this.#clear();
  }

  #clear() {
    this.times = [];
    this.curves = new Map();
    this.chart?.close();
    this.chart = null;
  }

  /** One more moment of what is listed; sockets that are plotted stay while they are among those. */
  take(listed, now_ms) {
    this.begin_ms ??= now_ms;
    const value = QUANTITIES[this.quantity][1];
    const known = new Map(listed.map((row) => [row.handle, row]));
    const before = this.curves.size;
    for (const handle of this.curves.keys()) if (!known.has(handle)) this.curves.delete(handle);
    let changed = this.curves.size !== before;
    for (const row of listed) {
      if (this.curves.size >= PLOTTED_MAX) break;
      if (this.curves.has(row.handle)) continue;
      this.curves.set(row.handle, { label: row.peer, values: new Array(this.times.length).fill(null) });
      changed = true;
    }
    this.times.push((now_ms - this.begin_ms) / 1000);
    for (const [handle, curve] of this.curves) curve.values.push(value(known.get(handle)) ?? null);
    if (this.times.length > MOMENTS_MAX) [this.times, ...[...this.curves.values()].map((it) => it.values)].forEach((it) => it.shift());
    if (changed || !this.chart) this.#make();
    this.span.first = this.times[0];
    this.span.end = this.times[this.times.length - 1];
    this.chart.set([this.times, ...[...this.curves.values()].map((it) => it.values)], `${this.curves.size} sockets`);
    setText(this.says, listed.length > this.curves.size ? `${this.curves.size} of ${listed.length} sockets` : `${listed.length} sockets`);
  }

  #make() {
    this.chart?.close();
    const [title, , show] = QUANTITIES[this.quantity];
    const series = [...this.curves.values()].map((curve, at) => ({ label: curve.label, colour: COLOURS[at % COLOURS.length], show, width: 1 }));
    this.chart = new Chart(this.place, { title: `${title}, since this plot was opened`, span: this.span, show, series, legend: false });
  }
}
