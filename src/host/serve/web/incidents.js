// The list of incidents, which are crossed limits, and one incident with its evidence, policy and recordings.

import { Span } from "./chart.js";
import { element, setText } from "./dom.js";
import { Evidence } from "./evidence.js";
import { ask } from "./trials.js";

/** A view without a stream of its own. */
class Still {
  path = null;

  close() {}

  recolour() {}

  hold() {}

  resume() {}

  seen() {}
}

export class IncidentsView extends Still {
  constructor(host) {
    super();
    this.says = element("p", { class: "says", role: "status" }, "Loading…");
    this.body = element("tbody", {});
    const heads = ["When", "What", "Why"].map((name) => element("th", { scope: "col" }, name));
    this.table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Incidents", hidden: true },
      element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.body));
    host.replaceChildren(element("h1", {}, "Incidents"), this.says, this.table);
  }

  seen({ incidents }) {
    setText(this.says, incidents.length ? "" : "No limit has been crossed so far.");
    this.table.hidden = incidents.length === 0;
    const row = (it) => element("tr", {}, element("th", { scope: "row" }, element("a", { href: `#/incidents/${it.name}` }, new Date(it.at).toLocaleString())),
      element("td", {}, it.title), element("td", { class: "words" }, it.why));
    const names = incidents.map((it) => it.name).join(" ");
    if (names !== this.names) this.body.replaceChildren(...incidents.map(row));
    this.names = names;
  }
}

export class IncidentView extends Still {
  constructor(host, name) {
    super();
    this.host = host;
    this.span = new Span(Infinity);
    this.place = element("div", {});
    this.evidence = new Evidence(this.place, this.span);
    this.name = name;
    host.replaceChildren(element("h1", {}, "Incident"), element("p", { class: "says", role: "status" }, "Loading…"));
    this.#load();
  }

  close() {
    this.isClosed = true;
    this.evidence.close();
  }

  recolour() {
    this.evidence.recolour();
  }

  async #load() {
    const path = `/api/trials/incidents/${encodeURIComponent(this.name)}`;
    const known = await ask(path);
    if (this.isClosed) return;
    if (!known) {
      setText(this.host.querySelector(".says"), "There is no incident with that name.");
      return;
    }
    const { incident, folder } = known;
    const facts = [["When", new Date(incident.at).toLocaleString()], ["What was on trial", incident.title], ["Host", `${incident.host[0]}, Linux ${incident.host[1]}`],
      ["Generation", `${incident.generation}, applied ${new Date(incident.since).toLocaleString()}`], ["Policy file", incident.file], ["Folder", folder]];
    const fact = ([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text));
    document.title = "incident · tccc";
    this.host.replaceChildren(
      element("h1", {}, "A limit was crossed"), element("p", { class: "notice" }, `${incident.why}.`),
      element("div", { class: "toolbar" }, element("a", { href: "#/incidents", class: "back" }, "← Incidents"), this.span.buttons(),
        element("a", { href: path, download: `${this.name}.json` }, "Document (JSON)")),
      element("dl", { class: "facts wide" }, ...facts.filter(([, text]) => text).map(fact)), this.place,
      element("section", {}, element("h2", {}, "The rules on trial"), element("pre", { tabindex: "0" }, incident.policy)),
      element("section", {}, element("h2", {}, "The time before"), ...recordings(incident, folder)));
    this.evidence.show(incident.rules, incident.history);
  }
}

function recordings({ recordings: files, why_no_recording: why }, folder) {
  if (files.length === 0) return [element("p", {}, `No recording was kept${why ? `: ${why}` : ""}.`)];
  const last = `${folder}/${files[files.length - 1]}`;
  const commands = [`tccc top --replay ${last}`, `tccc serve --replay ${last} --trials`, `tccc report ${folder}`];
  return [element("p", {}, `${files.length === 1 ? "A recording" : `${files.length} recordings`} of every connection before the limit was crossed: ${files.join(", ")}. Look at the latest with one of these commands:`),
    element("pre", { tabindex: "0" }, commands.join("\n"))];
}
