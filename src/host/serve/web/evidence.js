// The evidence of a trial: the metrics of each rule's arms, and each limit over time.

import { Chart } from "./chart.js";
import { element, setText } from "./dom.js";
import * as format from "./format.js";

/** Name, format and description of the metric of a limit. */
const METRICS = {
  retransmitted: ["Retransmitted", format.share, "Share of the data segments that were retransmissions"],
  timeouts: ["Timeouts", format.plain, "Retransmission timeouts per connection"],
  rtt_inflation: ["RTT inflation", format.plain, "Smoothed RTT over the lowest RTT"],
  goodput: ["Goodput", format.rate, "Payload per second while there was data to send"],
  abnormal_ends: ["Abnormal ends", format.share, "Share of the connections that ended by a reset or a timeout"],
};
const STATES = {
  crossed: ["✗", "Crossed: the arm is worse than the limit allows."],
  safe: ["✓", "Shown to hold."],
  undecided: ["?", "Not decided yet."],
  not_comparable: ["–", "Nothing to compare with."],
};
/** Lower e-values carry no further information, and a logarithmic axis needs a lower end. */
const E_LEAST = 0.001;

const times = (value) => `${format.digits(value)} ×`;

/** The length of a window in words. */
function lengthOf(seconds) {
  if (seconds == null || (seconds >= 55 && seconds < 90)) return "minute";
  return seconds < 55 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} minutes`;
}

/** Describes the current evidence of a limit in sentences. */
export function sentences(limit) {
  const [name, show] = METRICS[limit.metric];
  const said = [];
  if (limit.ratio != null) {
    const interval = limit.interval ? `, interval ${format.digits(limit.interval[0])} to ${format.digits(limit.interval[1])}` : "";
    said.push(`${name} is ${format.digits(limit.ratio)} times that of keep${interval}.`);
  } else if (limit.value != null) {
    said.push(`${name} was ${show(limit.value)} in the latest ${lengthOf(limit.window_s)}.`);
  }
  if (limit.evidence) {
    const [worse, safe] = limit.evidence.map(format.evidence);
    said.push(`The e-value of harm is ${worse}, that of safety ${safe}; ${format.evidence(limit.needed)} decides.`);
  }
  if (limit.why_not) said.push(`${limit.why_not[0].toUpperCase()}${limit.why_not.slice(1)}.`);
  return said.join(" ");
}

export class Evidence {
  /** `span` is the time range shared by the charts. */
  constructor(host, span) {
    Object.assign(this, { host, span, rules: [] });
  }

  close() {
    this.rules.forEach((rule) => rule.close());
  }

  recolour() {
    this.rules.forEach((rule) => rule.recolour());
  }

  /** Shows the rules of a trial. `history`: the looks so far. `extra(rule)`: elements above the arms of a rule. */
  show(rules, history, extra = () => []) {
    const shape = JSON.stringify(rules.map((rule) => [rule.rule, rule.arms.map((arm) => arm.arm), rule.limits.map((it) => [it.arm, it.limit])]));
    if (shape !== this.shape) {
      this.close();
      this.shape = shape;
      this.rules = rules.map((rule) => new RuleEvidence(rule, this.span));
      this.host.replaceChildren(...this.rules.map((rule) => rule.section));
      this.rules.forEach((rule) => rule.draw());
    }
    const last = history[history.length - 1]?.at_s ?? 0;
    [this.span.first, this.span.end] = [history[0]?.at_s ?? 0, last];
    let from = 0;
    rules.forEach((rule, at) => {
      this.rules[at].show(rule, history, from, extra(rule));
      from += rule.limits.length;
    });
  }
}

class RuleEvidence {
  constructor(rule, span) {
    this.limits = rule.limits.map((limit) => new LimitEvidence(limit, span));
    this.above = element("div", {});
    this.broken = element("p", { class: "notice", role: "alert", hidden: true },
      "The arms do not have the shares of the split, so they cannot be compared. One arm loses connections, or its connections are not counted.");
    this.body = element("tbody", {});
    const metrics = Object.entries(METRICS);
    const heads = ["Arm", "Share", "Connections", ...metrics.map(([, [name]]) => name)];
    const head = (name, at) => element("th", { scope: "col", class: at > 0 ? "number" : "", title: metrics[at - 3]?.[1][2] }, name);
    const table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Arms of rule ${rule.rule}` },
      element("table", {}, element("thead", {}, element("tr", {}, ...heads.map(head))), this.body));
    this.section = element("section", { class: "rule" }, element("h2", {}, `Rule ${rule.rule}`), this.above, this.broken, table,
      ...this.limits.map((limit) => limit.section));
  }

  draw() {
    this.limits.forEach((limit) => limit.draw());
  }

  close() {
    this.limits.forEach((limit) => limit.close());
  }

  recolour() {
    this.limits.forEach((limit) => limit.recolour());
  }

  show(rule, history, from, above) {
    this.above.replaceChildren(...above);
    this.broken.hidden = !rule.is_broken;
    const rows = rule.arms.map((arm) => {
      const values = Object.entries(METRICS).map(([metric, [, show]]) => show(arm.values[metric] ?? null));
      const cells = [format.portion(arm.share), format.packets(arm.connections), ...values];
      return element("tr", {}, element("th", { scope: "row" }, arm.arm), ...cells.map((text) => element("td", { class: "number" }, text)));
    });
    this.body.replaceChildren(...rows);
    this.limits.forEach((limit, at) => limit.show(rule.limits[at], history, from + at));
  }
}

/** One limit of one arm: the metric of both arms, their ratio with the limit, and the e-value with its threshold. */
class LimitEvidence {
  constructor(limit, span) {
    Object.assign(this, { limit, span, charts: [] });
    this.state = element("p", { class: "state-of-limit", role: "status" });
    this.says = element("p", { class: "says" });
    this.place = element("div", { class: "abreast" });
    this.section = element("section", { class: "limit" }, element("h3", {}, `${limit.arm}: ${limit.limit}`), this.state, this.says, this.place);
  }

  get isRelative() {
    return this.limit.allowed?.relative != null;
  }

  /** Creates the charts, which can measure themselves once their place is in the page. */
  draw() {
    const { limit, span } = this;
    const [name, show] = METRICS[limit.metric];
    const level = (value, words, colour) => ({ levels: () => (value == null ? [] : [{ value, name: words, colour }]) });
    const of = (more) => ({ span, clock: true, ...more });
    const absolute = level(limit.allowed?.absolute, `limit ${limit.limit}`, "timeout");
    this.charts.push(new Chart(this.place, of({ title: `${name} of both arms`, show, look: this.isRelative ? {} : absolute, series: [
      { label: limit.arm, colour: "cwnd", show, width: 2 }, { label: "keep", colour: "ssthresh", show, dash: [6, 4] }] })));
    if (!this.isRelative) {
      this.charts.push(new Chart(this.place, of({ title: `${name} of ${limit.arm}, latest minute`, show, look: absolute, series: [
        { label: limit.arm, colour: "cwnd", show, width: 2 }] })));
      return;
    }
    const allowed = level(limit.allowed.relative, `limit ${format.digits(limit.allowed.relative)} ×`, "timeout");
    this.charts.push(new Chart(this.place, of({ title: "Ratio to keep, with its interval", show: times, look: allowed, scale: { free: true },
      ribbon: { between: [2, 1], colour: "ribbon" }, series: [
        { label: "low", colour: "inflight", show: times, width: 1 }, { label: "high", colour: "inflight", show: times, width: 1 },
        { label: "ratio", colour: "cwnd", show: times, width: 2 }] }))); // the last curve is drawn above the ribbon
    this.charts.push(new Chart(this.place, of({ title: "E-value of harm", show: format.evidence, scale: { log: true },
      look: { levels: () => (this.needed ? [{ value: this.needed, name: `${format.evidence(this.needed)} decides`, colour: "timeout" }] : []) },
      series: [{ label: "e-value", colour: "srtt", show: format.evidence, width: 2 }] })));
  }

  close() {
    this.charts.forEach((chart) => chart.close());
    this.charts = [];
  }

  recolour() {
    this.charts.forEach((chart) => chart.recolour());
  }

  show(limit, history, at) {
    const [sign, words] = STATES[limit.state];
    this.needed = limit.needed ?? this.needed;
    this.state.dataset.state = limit.state;
    setText(this.state, `${sign} ${words}`);
    setText(this.says, sentences(limit));
    const points = history.map((point) => point.limits[at] ?? {});
    const seconds = history.map((point) => point.at_s);
    const column = (value) => points.map((point) => value(point) ?? null);
    const last = points[points.length - 1] ?? {};
    const [, show] = METRICS[limit.metric];
    const [own, other] = [0, 1].map((arm) => column((point) => point.arms?.[arm]));
    const data = [[[seconds, own, other], `${limit.arm} ${show(last.arms?.[0] ?? null)}, keep ${show(last.arms?.[1] ?? null)}`]];
    if (this.isRelative) {
      const ends = [0, 1].map((end) => column((point) => point.interval?.[end]));
      data.push([[seconds, ...ends, column((point) => point.ratio)], last.ratio == null ? "not known yet" : times(last.ratio)]);
      const harm = column((point) => (point.e_worse == null ? null : Math.max(point.e_worse, E_LEAST)));
      data.push([[seconds, harm], `${format.evidence(last.e_worse)}; ${format.evidence(this.needed)} decides`]);
    } else {
      data.push([[seconds, column((point) => point.ratio)], show(last.ratio ?? null)]);
    }
    this.charts.forEach((chart, place) => chart.set(...data[place]));
  }
}
