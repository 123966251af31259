// The running trial: its subject, remaining time, limits and next steps.

import { Span } from "./chart.js";
import { element, setText } from "./dom.js";
import { Evidence } from "./evidence.js";
import * as format from "./format.js";
import { ending, endsIn } from "./trials.js";

const RULE_STATES = { judged: "judged by the guard", frozen: "frozen: it stays until a person decides", passed: "passed" };
const RESULTS = { kept: "Kept", reverted: "Reverted", interrupted: "Interrupted" };
const ON_FAIL = { revert: "every connection is decided as before, and an incident is written", freeze: "the share stays as it is until a person decides" };
const UNDECIDED = { revert: "every connection is decided as before", proceed: "the rule proceeds anyway", hold: "it waits until the guard can tell" };

export class TrialView {
  path = null;

  constructor(host, words, shell) {
    this.shell = shell;
    this.span = new Span(Infinity);
    this.history = [];
    this.heading = element("h1", {}, "Trial");
    this.says = element("p", { class: "says", role: "status" }, "Loading…");
    this.ended = element("section", { class: "ended", hidden: true });
    this.facts = element("dl", { class: "facts wide" });
    this.place = element("div", {});
    this.toolbar = element("div", { class: "toolbar" }, this.span.buttons());
    host.replaceChildren(this.heading, this.says, this.ended, this.facts, this.toolbar, this.place);
    this.evidence = new Evidence(this.place, this.span);
    this.shell.trials.look = "0";
    this.shell.trials.refresh();
    this.clock = setInterval(() => this.#tick(), 1000);
  }

  close() {
    clearInterval(this.clock);
    this.shell.trials.look = null;
    this.evidence.close();
  }

  recolour() {
    this.evidence.recolour();
  }

  hold() {}

  resume() {}

  /** Shows a document of the server. */
  seen(known) {
    const { trial, last, problem } = known;
    this.trial = trial;
    setText(this.says, problem ? `What is on trial is not known: ${problem}.` : trial || last ? "" : "Nothing is on trial.");
    this.#showEnd(trial ? null : last);
    this.facts.hidden = !trial;
    this.toolbar.hidden = this.history.length < 2 && !trial?.history;
    if (!trial) return;
    this.rules = trial.rules;
    setText(this.heading, `Trial: ${trial.title}`);
    document.title = `trial of ${trial.title} · tccc`;
    if (trial.seen) this.shell.trials.look = trial.seen;
    if (trial.history) this.history = trial.history;
    this.#tick();
    this.evidence.show(trial.rules, this.history, (rule) => this.#aboveArms(rule));
  }

  /** Shows the result of the latest trial above its last evidence. */
  #showEnd(last) {
    this.ended.hidden = !last;
    if (!last) return;
    this.ended.classList.toggle("bad", last.result === "reverted");
    const link = last.incident_name ? element("p", {}, element("a", { href: `#/incidents/${last.incident_name}` }, "The incident: evidence, policy and recording")) : null;
    const shown = last.shown.length ? element("ul", {}, ...last.shown.map((limit) => element("li", {}, limit))) : null;
    this.ended.replaceChildren(...[element("h2", {}, RESULTS[last.result]), element("p", {}, ending(last)), shown,
      element("p", { class: "count" }, new Date(last.at).toLocaleString()), link].filter(Boolean));
    if (!this.rules) setText(this.heading, "Latest trial");
    else this.evidence.show(this.rules, this.history, () => [element("p", { class: "then" }, "What the guard saw last:")]);
  }

  /** Updates the times between two documents. */
  #tick() {
    const trial = this.trial;
    if (!trial) return;
    const passed = (Date.now() - this.shell.trials.at_ms) / 1000;
    const guard = trial.over ? `it is over: ${trial.over}` : trial.guard_lives ? `process ${trial.guard_pid}` : `process ${trial.guard_pid} is dead`;
    const lease = trial.lease_s == null ? null : trial.guard_lives ? "renewed by the guard" : `connections are decided as before in ${format.clock(trial.lease_s - passed)}`;
    const facts = [
      ["Running for", format.clock(trial.running_s + passed)],
      ["Ends", endsIn(trial, passed) ?? "by its rules, or when a person decides"],
      ["Keep it", `tccc confirm${trial.name === "policy" ? "" : ` ${trial.name}`}`],
      ["A crossed limit", ON_FAIL[trial.on_fail]],
      ["Guard", guard], ["Lease", lease],
      ["Latest look", trial.seen_s_ago == null ? "none yet" : `${format.clock(trial.seen_s_ago + passed)} ago`],
      ["Steps", trial.paused ? "paused by a person; the guard still judges" : null],
      ["Generation", String(trial.generation)],
    ].filter(([, text]) => text !== null);
    if (this.facts.children.length !== facts.length) {
      this.facts.replaceChildren(...facts.map(([name]) => element("div", {}, element("dt", {}, name), element("dd", {}))));
    }
    facts.forEach(([name, text], at) => {
      const [dt, dd] = this.facts.children[at].children;
      setText(dt, name);
      setText(dd, text);
    });
  }

  #aboveArms(rule) {
    const parts = [];
    if (rule.steps.length) parts.push(steps(rule));
    const due = rule.due_in_s == null ? "" : rule.due_in_s > 0 ? ` In ${format.clock(rule.due_in_s)}: ` : " Its time is over: ";
    const state = `${RULE_STATES[rule.state][0].toUpperCase()}${RULE_STATES[rule.state].slice(1)}.`;
    parts.push(element("p", { class: "then" }, `${state}${due ? due + rule.then + "." : ""}`));
    if (rule.state === "judged" && rule.undecided) parts.push(element("p", { class: "count" }, `If the guard cannot tell by then: ${UNDECIDED[rule.undecided]}.`));
    return parts;
  }
}

/** The steps of a rule, with the current one marked. */
function steps(rule) {
  const step = (it, at) => {
    const [sign, words] = rule.state === "passed" || at < rule.step ? ["✓", "passed"] : at === rule.step ? ["▶", "now"] : ["", ""];
    return element("li", { "aria-current": words === "now" ? "step" : null, class: words },
      element("b", {}, `${sign} ${format.portion(it.share)}`.trim()), ` for ${format.clock(it.for_s)}${words ? ` (${words})` : ""}`);
  };
  return element("ol", { class: "steps", "aria-label": `Steps of rule ${rule.rule}` }, ...rule.steps.map(step));
}
