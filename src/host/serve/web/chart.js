// A chart over time with zoom, pan, values under the pointer, phase bands and marks. uPlot draws it.

import uPlot from "uplot";

import { element, setText } from "./dom.js";
import { clock } from "./format.js";
import { colour } from "./theme.js";

const HEIGHT_PX = 220;
/** Diameter of an isolated point. */
const POINT_PX = 4;
const ZOOM_STEP = 0.75;
const PAN_STEP = 0.2;
/** Number of colours for bands. */
const BANDS = 6;
/** Marks only the curve near the pointer instead of every curve. */
const NEAREST = { focus: { prox: 24 }, points: { one: true } };
/** Gap on both sides of a band's name, pixels. */
const NAME_GAP_PX = 4;
/** Steps between time labels, seconds: fractions of minutes, hours and days. */
const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
/** Colours of marks. */
const MARKS = { loss: "loss", timeout: "timeout", change: "link" };
/** Margin above and below curves whose axis does not start at 0, as a share of their range. */
const MARGIN = 0.12;

/**
 * The time range shared by several charts. Follows the newest moment until the user zooms or pans.
 */
export class Span {
  constructor(seconds) {
    this.seconds = seconds;
    /** Width of the y axis labels. All charts use the same width, so their time axes are aligned. */
    this.labels_px = 0;
    this.end = 0;
    this.fixed = null;
    this.charts = [];
  }

  get range() {
    if (this.fixed) return this.fixed;
    // Nothing is shown before the first moment.
    const begin = Math.max(this.end - this.seconds, this.first ?? 0);
    return [begin, Math.max(this.end, begin + 1)];
  }

  /** Widens the label area of every chart to that of the longest label. */
  makeRoom(needed_px) {
    if (needed_px <= this.labels_px) return;
    const isFirst = this.labels_px === 0;
    this.labels_px = needed_px;
    if (!isFirst || this.charts.length > 1) requestAnimationFrame(() => this.charts.forEach((chart) => chart.align()));
  }

  /** Fixes the range. With nulls, or a range under 10 ms, follows the newest moment again. */
  fix(begin, end) {
    this.fixed = begin === null || end - begin < 0.01 ? null : [begin, end];
    this.charts.forEach((chart) => chart.draw());
    this.changed?.();
  }

  zoom(factor, at = (this.range[0] + this.range[1]) / 2) {
    const [begin, end] = this.range;
    this.fix(at - (at - begin) * factor, at + (end - at) * factor);
  }

  pan(share) {
    const [begin, end] = this.range;
    const shift = (end - begin) * share;
    this.fix(begin + shift, end + shift);
  }

  /** Handles a key; returns whether it was one of ours. */
  key(event) {
    const doings = {
      "+": () => this.zoom(ZOOM_STEP),
      "=": () => this.zoom(ZOOM_STEP),
      "-": () => this.zoom(1 / ZOOM_STEP),
      ArrowLeft: () => this.pan(-PAN_STEP),
      ArrowRight: () => this.pan(PAN_STEP),
      0: () => this.fix(null, null),
    };
    const doing = event.ctrlKey || event.metaKey || event.altKey ? null : doings[event.key];
    doing?.();
    return Boolean(doing);
  }

  /** Buttons with the same functions as keys and wheel. */
  buttons() {
    const button = (sign, name, act) => element("button", { type: "button", title: name, "aria-label": name, onclick: act }, sign);
    return element("div", { class: "span", role: "group", "aria-label": "Time shown" },
      button("◀", "Earlier", () => this.pan(-PAN_STEP)), button("▶", "Later", () => this.pan(PAN_STEP)),
      button("+", "Zoom in", () => this.zoom(ZOOM_STEP)), button("−", "Zoom out", () => this.zoom(1 / ZOOM_STEP)),
      button("Follow", "Follow the newest moment", () => this.fix(null, null)));
  }
}

/** Indices of values without a neighbour, to which no line leads. */
function alone(values) {
  const isAlone = (value, at) => value != null && values[at - 1] == null && values[at + 1] == null;
  const places = values.map((value, at) => (isAlone(value, at) ? at : -1)).filter((at) => at >= 0);
  return places.length ? places : null;
}

export class Chart {
  /**
   * `series`: label, name of the colour, show(value), dash, width. `look`: bands, marks and levels behind and above the
   * curves. `scale`: `log`, or `free` if it need not start at 0. `ribbon`: two curves and the colour between them. `clock`:
   * the time may be days. `moment(seconds)`: formats a time that is not a number of seconds. `isSparse`: isolated values are
   * drawn as points.
   */
  constructor(host, { title, series, span, show, ...more }) {
    const { look = {}, legend = true, scale = {}, ribbon = null, clock = false, height = HEIGHT_PX, moment = null, isSparse = false } = more;
    Object.assign(this, { host, title, series, span, look, show, legend, scale, ribbon, clock, height, moment, isSparse });
    this.figure = element("div", { class: "chart", tabindex: "0", role: "group", "aria-label": title,
      onkeydown: (event) => span.key(event) && event.preventDefault() });
    this.place = element("div", {});
    // With too many curves for a legend, names the one under the pointer.
    this.under = element("p", { class: "under", "aria-hidden": "true" });
    this.focused = null;
    this.figure.append(element("p", { "aria-hidden": "true" }, title), this.place, ...(legend ? [] : [this.under]));
    host.append(this.figure);
    span.charts.push(this);
    this.data = [[], ...series.map(() => [])];
    this.#make();
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.place);
  }

  close() {
    this.observer.disconnect();
    this.span.charts = this.span.charts.filter((chart) => chart !== this);
    this.plot.destroy();
    this.figure.remove();
  }

  set(data, words) {
    this.data = data;
    if (words) this.figure.setAttribute("aria-label", `${this.title}: ${words}`);
    this.draw();
  }

  draw() {
    this.plot.setData(this.data, true);
  }

  /** Redraws the axes because another chart has longer labels. */
  align() {
    this.plot.redraw(false, true);
  }

  recolour() {
    this.plot.destroy();
    this.#make();
  }

  /** Replaces the curves and keeps the figure, with its keyboard focus. */
  relist(series) {
    this.plot.destroy();
    [this.series, this.data, this.focused] = [series, [[], ...series.map(() => [])], null];
    this.#make();
  }

  #make() {
    const [ink, lines] = [colour("ink"), colour("lines")];
    // On a logarithmic axis, draws lines only at powers of ten.
    const filter = (_, splits) => splits.map((split) => (this.scale.log && Math.abs(Math.log10(split) % 1) > 1e-6 ? null : split));
    const axis = { stroke: ink, grid: { stroke: lines, width: 1 }, ticks: { stroke: lines, width: 1 }, font: "12px system-ui, sans-serif" };
    const upright = { ...axis, grid: { ...axis.grid, filter }, ticks: { ...axis.ticks, filter } };
    const series = this.series.map((it) => ({
      label: it.label, stroke: typeof it.colour === "function" ? it.colour() : colour(it.colour), width: it.width ?? 1.5, dash: it.dash, scale: "y",
      points: this.isSparse ? { show: () => false, filter: (plot, at) => alone(plot.data[at]), size: POINT_PX } : { show: false }, spanGaps: false, value: (_, value) => (value == null ? "–" : it.show(value)),
      paths: it.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
    }));
    this.plot = new uPlot({
      width: Math.max(this.place.clientWidth, 200), height: this.height,
      legend: { show: this.legend, live: true },
      cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, ...(this.legend ? {} : NEAREST) },
      focus: { alpha: 1 }, // a smaller value redraws every curve whenever the pointer moves to another one
      select: { show: true },
      scales: { x: { time: false, range: () => this.span.range }, y: { distr: this.scale.log ? 3 : 1, range: (_, low, high) => this.#range(low, high) } },
      bands: this.ribbon ? [{ series: this.ribbon.between, fill: colour(this.ribbon.colour) }] : [],
      series: [{ label: "time", value: (_, value) => (value == null ? "–" : this.#time(value)) }, ...series],
      axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => (this.moment?.(tick) ?? (this.clock ? clock(tick) : `${+tick.toFixed(2)} s`))), size: 32, ...(this.clock || this.moment ? { incrs: CLOCK_STEPS, space: 84 } : {}) },
        { ...upright, size: (...it) => this.#axisSize(...it), values: (_, ticks) => ticks.map((tick) => (tick != null && this.data[0].length ? this.show(tick) : "")) }],
      hooks: {
        setSelect: [(plot) => this.#select(plot)],
        drawClear: [(plot) => this.#drawBands(plot)],
        draw: [(plot) => this.#drawMarks(plot)],
        ready: [(plot) => this.#listen(plot)],
        setSeries: [(_, at, { focus }) => { if (focus) this.focused = at; }],
        setCursor: [(plot) => this.#nameFocused(plot)],
      },
    }, this.data, this.place);
  }

  #time(seconds) {
    if (this.moment) return this.moment(seconds);
    return this.clock ? clock(Math.round(seconds)) : `${seconds.toFixed(2)} s`;
  }

  /** The range of the y axis, which includes the levels. */
  #range(low, high) {
    const levels = (this.look.levels?.() ?? []).map((level) => level.value);
    const values = [low, high, ...levels].filter((value) => value != null);
    const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    if (this.scale.log) return [least / 2, Math.max(most, least * 10) * 2];
    if (!this.scale.free) return [0, most > 0 ? most * 1.08 : 1];
    const room = (most - least || Math.abs(most) || 1) * MARGIN;
    return [least - room, most + room];
  }

  /** As wide as the longest label. A fixed width cut off "100 Mbit/s". */
  #axisSize(plot, labels, at, cycle) {
    const axis = plot.axes[at];
    if (cycle > 1) return axis._size; // ends the iteration
    plot.ctx.save();
    plot.ctx.font = axis.font[0];
    const widest = Math.max(0, ...(labels ?? []).map((label) => plot.ctx.measureText(label).width));
    plot.ctx.restore();
    this.span.makeRoom(Math.ceil(widest / devicePixelRatio));
    return axis.ticks.size + axis.gap + this.span.labels_px;
  }

  #resize() {
    const width = Math.floor(this.place.clientWidth);
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  #select(plot) {
    if (plot.select.width > 4) {
      const at = (px) => plot.posToVal(px, "x");
      this.span.fix(at(plot.select.left), at(plot.select.left + plot.select.width));
    }
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  #nameFocused({ cursor, data, series }) {
    if (this.legend) return;
    const [at, curve] = [cursor.idx, series[this.focused ?? 0]];
    const value = this.focused && at != null ? data[this.focused][at] : null;
    setText(this.under, value == null ? "" : `${curve.label} at ${this.#time(data[0][at])}: ${this.show(value)}`);
  }

  #listen(plot) {
    plot.over.addEventListener("dblclick", () => this.span.fix(null, null));
    plot.over.addEventListener("wheel", (event) => {
      // The wheel scrolls the page. With a key held, or sideways, it moves the time.
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.span.pan(Math.sign(event.deltaX || event.deltaY) * PAN_STEP / 2);
      } else if (event.ctrlKey) {
        event.preventDefault();
        const at = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x");
        this.span.zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, at);
      }
    }, { passive: false });
  }

  #drawBands(plot) {
    const bands = this.look.bands?.() ?? [];
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left"; // the axes leave it centred
    const gap = NAME_GAP_PX * devicePixelRatio;
    for (const { begin, end, name, number } of bands) {
      const [left, right] = [plot.valToPos(begin, "x", true), plot.valToPos(end, "x", true)];
      if (right < bbox.left || left > bbox.left + bbox.width) continue;
      ctx.fillStyle = colour(`band-${number % BANDS}`);
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      const seen = [Math.max(left, bbox.left), Math.min(right, bbox.left + bbox.width)];
      if (seen[1] - seen[0] >= ctx.measureText(name).width + 2 * gap) {
        ctx.fillStyle = colour("quiet");
        ctx.fillText(name, seen[0] + gap, bbox.top + 3 * devicePixelRatio);
      }
    }
    ctx.restore();
  }

  /** Lines across the chart, each with its name. */
  #drawLevels(plot) {
    const { ctx, bbox } = plot;
    const size = 11 * devicePixelRatio;
    ctx.save();
    ctx.font = `${size}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    for (const { value, name, colour: of } of this.look.levels?.() ?? []) {
      const y = plot.valToPos(value, "y", true);
      ctx.fillStyle = ctx.strokeStyle = colour(of);
      ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      // The name is above the line, or below it near the top.
      const above = y - bbox.top > 2 * size;
      const [left, gap, width] = [bbox.left + NAME_GAP_PX * devicePixelRatio, 3 * devicePixelRatio, ctx.measureText(name).width];
      const top = above ? y - gap - size : y + gap;
      // A background keeps the name readable over a curve.
      ctx.fillStyle = colour("paper");
      ctx.globalAlpha = 0.75;
      ctx.fillRect(left - gap, top - 1, width + 2 * gap, size + 1);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour(of);
      ctx.textBaseline = "top";
      ctx.fillText(name, left, top);
    }
    ctx.restore();
  }

  #drawMarks(plot) {
    this.#drawLevels(plot);
    const marks = this.look.marks?.() ?? [];
    const { ctx, bbox } = plot;
    const [size, bottom] = [6 * devicePixelRatio, bbox.top + bbox.height];
    ctx.save();
    ctx.textAlign = "left";
    for (const { time, kind } of marks) {
      const at = plot.valToPos(time, "x", true);
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      ctx.fillStyle = ctx.strokeStyle = colour(MARKS[kind]);
      ctx.beginPath();
      if (kind === "loss") {
        ctx.moveTo(at, bottom - size * 1.6);
        ctx.lineTo(at - size * 0.8, bottom);
        ctx.lineTo(at + size * 0.8, bottom);
        ctx.fill();
        continue;
      }
      ctx.setLineDash((kind === "change" ? [2, 2] : [4, 3]).map((length) => length * devicePixelRatio));
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bottom);
      ctx.stroke();
      if (kind === "timeout") {
        ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.fillText("RTO", at + 3 * devicePixelRatio, bottom - 4 * devicePixelRatio);
      }
    }
    ctx.restore();
  }
}
