// One quantity of the first two hundred sockets of the list, in one chart.

import { Chart, Span } from "./chart.js";
import { COLOURS } from "./colours.js";
import { Curves } from "./curves.js";
import { element, setText } from "./dom.js";
import * as format from "./format.js";
import { ask } from "./trials.js";

const QUANTITIES = {
  cwnd: ["cwnd, packets", (row) => row.cwnd_pkts, format.packets],
  srtt: ["srtt", (row) => row.srtt_us, format.time],
  goodput: ["Goodput", (row) => row.goodput_bps, format.rate],
};

export class Plot {
  constructor(host, shell) {
    Object.assign(this, { host, shell });
    this.quantity = "cwnd";
    this.span = new Span(60);
    this.curves = new Curves();
    this.says = element("p", { class: "count" });
    this.choice = element("select", { id: "quantity", onchange: () => this.#choose() },
      ...Object.entries(QUANTITIES).map(([name, [label]]) => element("option", { value: name }, label)));
    this.place = element("div", {});
    host.replaceChildren(element("div", { class: "toolbar" }, element("label", { for: "quantity" }, "Plot of"), this.choice, this.span.buttons(), this.says), this.place);
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
    this.curves.clear();
    this.chart?.close();
    this.chart = null;
    if (this.latest) this.take(...this.latest);
  }

  /** Adds the values of the listed sockets. */
  take(listed, now_ms) {
    this.latest = [listed, now_ms];
    const isChanged = this.curves.take(listed, now_ms, QUANTITIES[this.quantity][1]);
    if (!this.chart) this.#make();
    else if (isChanged) this.chart.relist(this.#series());
    const { data, times, all } = this.curves;
    if (times.length === 1) this.span.fixed = null; // the zoomed range is gone
    this.span.first = times[0];
    this.span.end = times[times.length - 1];
    this.chart.set(data, this.#words());
    this.#askForPast();
    setText(this.says, listed.length > all.size ? `${all.size} of ${listed.length} sockets` : `${listed.length} sockets`);
  }

  /** Requests the past of new curves, one request at a time. */
  async #askForPast() {
    const { curves, quantity } = this;
    const wanted = curves.unasked;
    if (this.isAsking || wanted.length === 0) return;
    this.isAsking = true;
    curves.ask(wanted);
    const begin_ms = curves.begin_ms;
    const past = await ask(`/api/past?quantity=${quantity}&sockets=${wanted.join()}`);
    this.isAsking = false;
    const isSame = this.quantity === quantity && curves.begin_ms === begin_ms && this.chart;
    if (!past) curves.ask(wanted, false); // the next frame asks again
    if (!past || !isSame) return;
    curves.takePast(past);
    this.span.first = curves.times[0];
    this.chart.set(curves.data, this.#words());
  }

  #words() {
    const { times, all } = this.curves;
    return `${all.size} sockets over ${format.clock(times[times.length - 1] - times[0])}`;
  }

  #make() {
    const [title, , show] = QUANTITIES[this.quantity];
    this.chart = new Chart(this.place, { title, span: this.span, show, series: this.#series(), legend: false,
      moment: (seconds) => this.shell.timeOf(this.curves.begin_ms + seconds * 1000) });
  }

  #series() {
    const show = QUANTITIES[this.quantity][2];
    return [...this.curves.all.values()].map((curve) => ({ label: curve.label, colour: COLOURS[curve.number % COLOURS.length], show, width: 1 }));
  }
}
