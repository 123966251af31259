// Polls the server for trials; shows the banner above every view and the links to trials and incidents.

import { element, setText } from "./dom.js";
import { clock } from "./format.js";

const REST_MS = 5000;
/** The banner shows the end of a trial for this long. */
const TOLD_MS = 600_000;

/** Requests a document. Null if the server has none or does not answer. */
export async function ask(path) {
  try {
    const answer = await fetch(path, { headers: { Accept: "application/json" } });
    return answer.status === 200 ? await answer.json() : null;
  } catch {
    return null; // the stream reports that the server is gone
  }
}

/** The end of a trial as a sentence. */
export function ending(last) {
  return `The trial of ${last.title} is over. It was ${last.verdict}: ${last.reason}.`;
}

/** The end of a trial as a phrase; null if only its rules or a person end it. */
export function endsIn(trial, passed_s = 0) {
  return trial.ends_in_s == null ? null : `undone in ${clock(trial.ends_in_s - passed_s)} unless confirmed`;
}

/** The crossed limits of a trial. */
export function crossed(trial) {
  return trial.rules.flatMap((rule) => rule.limits).filter((limit) => limit.state === "crossed");
}

export class Trials {
  /** Calls `seen` with each document. */
  constructor(seen) {
    this.seen = seen;
    this.banner = document.getElementById("trial");
    this.links = { trial: document.getElementById("nav-trial"), incidents: document.getElementById("nav-incidents") };
    this.latest = null;
    /** Name of the guard's look whose history is known; null if the history is not needed. */
    this.look = null;
  }

  /** Polls until the server answers that it has no trials. */
  async run() {
    for (;;) {
      const known = await this.refresh();
      if (!known && this.isMute) return;
      await new Promise((done) => setTimeout(done, REST_MS));
    }
  }

  async refresh() {
    const answer = await fetch(`/api/trials${this.look === null ? "" : `?seen=${this.look}`}`).catch(() => null);
    this.isMute = answer?.status === 204;
    if (answer?.status !== 200) return false;
    this.latest = await answer.json();
    this.at_ms = Date.now();
    this.#show();
    this.seen(this.latest);
    return true;
  }

  #show() {
    const { trial, last, incidents } = this.latest;
    this.links.trial.hidden = !trial;
    this.links.incidents.hidden = incidents.length === 0;
    const isFresh = last && Date.now() - Date.parse(last.at) < TOLD_MS;
    // The view of the trial shows its end itself.
    this.banner.hidden = !trial && (!isFresh || location.hash === "#/trial");
    this.banner.classList.toggle("bad", trial ? crossed(trial).length > 0 : last?.result === "reverted");
    if (trial) this.#say(`On trial: ${trial.title}`, bannerWords(trial), "#/trial");
    else if (isFresh) this.#say(ending(last), "", last.incident_name ? `#/incidents/${last.incident_name}` : "#/trial");
  }

  /** Screen readers skip the part that changes with time. */
  #say(what, more, href) {
    if (!this.banner.firstChild) this.banner.append(element("a", {}), element("span", { "aria-hidden": "true" }));
    const [link, words] = this.banner.children;
    setText(link, what);
    link.href = href;
    setText(words, more);
  }
}

/** The progress of a rule as a phrase. */
function progress(rule) {
  if (rule.state !== "judged") return `rule ${rule.rule} is ${rule.state}`;
  const step = rule.steps.length ? `step ${rule.step + 1} of ${rule.steps.length}` : null;
  const left = rule.due_in_s == null ? null : rule.due_in_s > 0 ? `${clock(rule.due_in_s)} left` : "its time is over";
  const words = [step, left].filter(Boolean).join(", ");
  return words && `rule ${rule.rule}: ${words}`;
}

function bannerWords(trial) {
  const words = [endsIn(trial), ...trial.rules.map(progress), trial.paused ? "paused" : null];
  if (trial.over) words.push(`it is over: ${trial.over}`);
  else if (!trial.guard_lives) words.push("its guard is dead");
  const bad = crossed(trial).length;
  if (bad) words.push(bad === 1 ? "a limit is crossed" : `${bad} limits are crossed`);
  return words.filter(Boolean).join("; ");
}
