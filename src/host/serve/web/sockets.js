// The table of all sockets, sorted and filtered. Only the visible rows are drawn.

import { COLUMNS, CSV_UNITS, columnNamed, sortRows } from "./columns.js";
import { csv } from "./csv.js";
import { download, element, setText } from "./dom.js";
import { parseFilter } from "./filter.js";
import { packets } from "./format.js";
import { Plot } from "./plot.js";
import { Sockets } from "./store.js";

/** Height of a row in the style sheet, pixels. */
const ROW_PX = 28;
/** Gap between columns and at the ends, in the style sheet, pixels. */
const GAP_PX = 12;
/** Rows drawn above and below the visible ones. */
const MARGIN = 6;

export class SocketsView {
  path = "/api/stream/sockets";

  constructor(host, words, shell) {
    this.live = new Sockets();
    this.sockets = this.live;
    this.shell = shell;
    this.listed = [];
    this.column = columnNamed(words.get("sort") ?? "goodput") ?? columnNamed("goodput");
    this.reversed = words.get("order") === "reversed";
    this.narrow = matchMedia("(max-width: 640px)");
    this.onresize = () => this.#layOut();
    this.#build(host, words.get("filter") ?? "");
    this.#layOut();
    addEventListener("resize", this.onresize);
  }

  close() {
    removeEventListener("resize", this.onresize);
    this.plot?.close();
  }

  /** The element that gets the keyboard focus when the view opens: the table, if a row was selected. */
  get entry() {
    return this.shell.chosen === null ? null : this.grid;
  }

  take(kind, frame) {
    this.live.take(kind, frame);
    if (!this.shell.isPaused) this.#list();
  }

  hold() {
    this.sockets = this.live.copy();
    this.#list();
  }

  resume() {
    this.sockets = this.live;
    this.#list();
  }

  recolour() {
    this.plot?.recolour();
  }

  #build(host, filter) {
    this.filter = element("input", {
      id: "filter", type: "search", value: filter, placeholder: "cubic  process:nginx  retrans>2%  srtt>50ms",
      spellcheck: "false", autocomplete: "off", "aria-describedby": "filter-says", oninput: () => this.#refilter(),
    });
    this.filter.addEventListener("keydown", (event) => event.key === "ArrowDown" && this.grid.focus());
    this.says = element("p", { id: "filter-says", class: "says", role: "alert" });
    this.count = element("p", { class: "count", role: "status" });
    this.plotButton = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.#togglePlot() }, "Plot");
    const toolbar = element("div", { class: "toolbar" },
      element("label", { for: "filter" }, "Filter"), this.filter, this.count, this.plotButton,
      element("button", { type: "button", onclick: () => this.#export() }, "CSV"), this.shell.pauseButton());
    this.plotHost = element("div", { class: "plot-host" });
    this.head = element("div", { class: "row head", role: "row", "aria-rowindex": "1" });
    this.body = element("div", { class: "rows", role: "rowgroup" });
    this.grid = element("div", { class: "grid", role: "grid", tabindex: "0", "aria-label": "Sockets",
      onscroll: () => this.#draw(), onkeydown: (event) => this.#key(event) },
      element("div", { role: "rowgroup", class: "heads" }, this.head), this.body);
    host.replaceChildren(element("h1", { class: "quiet" }, "Sockets"), toolbar, this.says, this.plotHost, this.grid);
    this.body.addEventListener("click", (event) => this.#click(event));
    this.#refilter();
  }

  /** Chooses the columns by the width of the window, and by whether there is a policy. */
  #layOut() {
    this.hadPolicy = this.sockets.hasPolicy;
    this.shown = COLUMNS.filter((column) => (column.phone || !this.narrow.matches) && (this.hadPolicy || !column.isOfPolicy));
    // Equal widths in every row, and at least the sum of the columns' widths.
    this.template = this.shown.map((it) => `minmax(0, ${this.narrow.matches ? it.phone : it.width}fr)`).join(" ");
    this.head.style.gridTemplateColumns = this.template;
    const needed = this.shown.reduce((sum, it) => sum + it.width, 0);
    const width = this.narrow.matches ? "100%" : `calc(${needed}ch + ${this.shown.length * GAP_PX}px)`;
    for (const part of [this.head.parentElement, this.body]) part.style.minWidth = width;
    this.grid.setAttribute("aria-colcount", this.shown.length);
    this.body.replaceChildren();
    this.drawn = [];
    this.#drawHead();
    this.#list();
  }

  #drawHead() {
    const cells = this.shown.map((column) => {
      const isBy = column === this.column;
      const downward = column.isText === this.reversed;
      const sort = isBy ? (downward ? "descending" : "ascending") : "none";
      const sign = isBy ? element("span", { class: "sign" }, downward ? " ▼" : " ▲") : null;
      const button = element("button", { type: "button", "data-column": column.name, onclick: () => this.#sortBy(column) },
        column.label, sign);
      return element("div", { role: "columnheader", "aria-sort": sort, class: column.isText ? "" : "number" }, button);
    });
    this.head.replaceChildren(...cells);
  }

  #sortBy(column) {
    this.reversed = this.column === column && !this.reversed;
    this.column = column;
    this.#drawHead();
    this.head.querySelector(`[data-column="${column.name}"]`)?.focus();
    this.#remember();
    this.#list();
  }

  #refilter() {
    try {
      this.passes = parseFilter(this.filter.value);
      setText(this.says, "");
      this.filter.removeAttribute("aria-invalid");
      this.#remember();
    } catch (refusal) {
      setText(this.says, refusal.message);
      this.filter.setAttribute("aria-invalid", "true");
    }
    if (this.shown) this.#list();
  }

  /** Stores filter and order in the address, so that it can be shared. */
  #remember() {
    const words = new URLSearchParams();
    if (this.filter.value.trim()) words.set("filter", this.filter.value.trim());
    if (this.column.name !== "goodput") words.set("sort", this.column.name);
    if (this.reversed) words.set("order", "reversed");
    this.shell.table = `#/sockets${words.size ? `?${words}` : ""}`;
    history.replaceState(null, "", this.shell.table);
  }

  #list() {
    if (this.sockets.hasPolicy !== this.hadPolicy) {
      this.#layOut(); // lists again
      return;
    }
    const all = [...this.sockets.rows.values()].filter((row) => row.cwnd_pkts !== undefined);
    this.listed = sortRows(all.filter(this.passes), this.column, this.reversed);
    const [seen, known] = [packets(this.listed.length), packets(all.length)];
    setText(this.count, seen === known ? `${known} sockets` : `${seen} of ${known} sockets`);
    this.grid.setAttribute("aria-rowcount", this.listed.length + 1);
    this.body.style.height = `${this.listed.length * ROW_PX}px`;
    this.#plotListed();
    this.#revealChosen();
    this.#draw();
  }

  #plotListed() {
    if (this.sockets.now_ms !== null) this.plot?.take(this.listed, this.sockets.now_ms);
  }

  /** Scrolls to the selected row once its socket is in the list. */
  #revealChosen() {
    if (this.isRevealed || this.listed.length === 0) return;
    const place = this.listed.findIndex((row) => row.id === this.shell.chosen);
    if (place >= 0) this.#reveal(place);
    this.isRevealed = true;
  }

  #draw() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW_PX) - MARGIN);
    const many = Math.ceil(this.grid.clientHeight / ROW_PX) + 2 * MARGIN;
    const seen = this.listed.slice(first, first + many);
    while (this.drawn.length < seen.length) this.drawn.push(this.#newRow());
    while (this.drawn.length > seen.length) this.drawn.pop().remove();
    seen.forEach((row, place) => this.#fill(this.drawn[place], row, first + place));
    const chosen = seen.find((row) => row.id === this.shell.chosen);
    if (chosen) this.grid.setAttribute("aria-activedescendant", `socket-${chosen.id}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #newRow() {
    const cells = this.shown.map((column, place) => {
      const inner = place === 0 ? element("a", { tabindex: "-1" }) : null;
      return element("div", { role: "gridcell", class: column.isText ? "" : "number" }, inner);
    });
    const made = element("div", { class: "row", role: "row" }, ...cells);
    made.style.gridTemplateColumns = this.template;
    this.body.append(made);
    return made;
  }

  #fill(node, row, place) {
    node.id = `socket-${row.id}`;
    node.dataset.id = row.id;
    node.style.transform = `translateY(${place * ROW_PX}px)`;
    node.setAttribute("aria-rowindex", place + 2);
    node.setAttribute("aria-selected", String(row.id === this.shell.chosen));
    node.classList.toggle("closed", row.is_closed);
    this.shown.forEach((column, index) => {
      const cell = node.children[index];
      const text = column.show(column.value(row));
      const target = index === 0 ? cell.firstChild : cell;
      setText(target, text);
      if (index === 0) target.href = `#/flow/${row.id}`;
      if (column.isText && target.title !== text) target.title = text;
      if (column.name === "ca_state") cell.dataset.state = row.ca_state;
    });
  }

  #click(event) {
    const node = event.target.closest(".row");
    if (node && !event.target.closest("a")) location.hash = `#/flow/${node.dataset.id}`;
  }

  #key(event) {
    if (event.target !== this.grid) return;
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW_PX) - 2);
    const place = this.listed.findIndex((row) => row.id === this.shell.chosen);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && place >= 0) {
      location.hash = `#/flow/${this.listed[place].id}`;
    } else if (event.key in steps && this.listed.length) {
      event.preventDefault();
      const next = Math.min(Math.max(place + steps[event.key], 0), this.listed.length - 1);
      this.shell.chosen = this.listed[next].id;
      this.#reveal(next);
      this.#draw();
    }
  }

  #reveal(place) {
    const head = this.head.offsetHeight;
    const [top, bottom] = [place * ROW_PX, (place + 1) * ROW_PX];
    const seen = this.grid.clientHeight - head;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (bottom > this.grid.scrollTop + seen) this.grid.scrollTop = bottom - seen;
  }

  #togglePlot() {
    if (this.plot) {
      this.plot.close();
      this.plot = null;
    } else {
      this.plot = new Plot(this.plotHost, this.shell);
      this.#plotListed();
    }
    this.plotButton.setAttribute("aria-pressed", String(Boolean(this.plot)));
    this.#draw();
  }

  #export() {
    const names = COLUMNS.map((column) => column.name + (CSV_UNITS[column.unit] ?? ""));
    const rows = this.listed.map((row) => COLUMNS.map((column) => column.value(row)));
    download("tccc-sockets.csv", csv(["socket", ...names], rows.map((row, at) => [this.listed[at].id, ...row])));
  }
}
