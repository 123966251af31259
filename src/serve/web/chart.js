// A chart over time with zoom, pan, values under the pointer, phase bands and marks; drawn by uPlot.

import uPlot from "uplot";

import { element, setText } from "./dom.js";
import { colour } from "./theme.js";

const HEIGHT_PX = 220;
const ZOOM_STEP = 0.75;
const PAN_STEP = 0.2;
/** Colours of bands, over and over. */
const BANDS = 6;
/** One point and one name, of the curve that the pointer is near to, instead of a point on each. */
const NEAREST = { focus: { prox: 24 }, points: { one: true } };
/** Left of a band's name, and at least as much right of it, pixels. */
const NAME_GAP_PX = 4;

/**
 * The time that several charts show together. Follows the newest moment until somebody zooms or pans.
 */
export class Span {
  constructor(seconds) {
    this.seconds = seconds;
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

  /** Fixes what is seen; both null: follows again. */
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

  /** What a key does to the time; whether it was one of ours. */
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

  /** Buttons that do what keys and wheel do. */
  buttons() {
    const button = (sign, name, act) => element("button", { type: "button", title: name, "aria-label": name, onclick: act }, sign);
    return element("div", { class: "span", role: "group", "aria-label": "Time shown" },
      button("◀", "Earlier", () => this.pan(-PAN_STEP)), button("▶", "Later", () => this.pan(PAN_STEP)),
      button("+", "Zoom in", () => this.zoom(ZOOM_STEP)), button("−", "Zoom out", () => this.zoom(1 / ZOOM_STEP)),
      button("Follow", "Follow the newest moment", () => this.fix(null, null)));
  }
}

export class Chart {
  /** `series`: label, colour's name, show(value), dash, width; `look`: what is drawn behind and above the curves. */
  constructor(host, { title, series, span, look = {}, show, legend = true }) {
    Object.assign(this, { host, title, series, span, look, show, legend });
    this.figure = element("div", { class: "chart", tabindex: "0", role: "group", "aria-label": title,
      onkeydown: (event) => span.key(event) && event.preventDefault() });
    this.place = element("div", {});
    // Where there are too many curves for a legend, the one under the pointer is named.
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

  recolour() {
    this.plot.destroy();
    this.#make();
  }

  /** Draws other curves in the same figure, which keeps the keys. */
  relist(series) {
    this.plot.destroy();
    [this.series, this.data, this.focused] = [series, [[], ...series.map(() => [])], null];
    this.#make();
  }

  #make() {
    const [ink, lines] = [colour("ink"), colour("lines")];
    const axis = { stroke: ink, grid: { stroke: lines, width: 1 }, ticks: { stroke: lines, width: 1 }, font: "12px system-ui, sans-serif" };
    const series = this.series.map((it) => ({
      label: it.label, stroke: typeof it.colour === "function" ? it.colour() : colour(it.colour), width: it.width ?? 1.5, dash: it.dash, scale: "y",
      points: { show: false }, spanGaps: false, value: (_, value) => (value == null ? "–" : it.show(value)),
      paths: it.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
    }));
    this.plot = new uPlot({
      width: Math.max(this.place.clientWidth, 200), height: HEIGHT_PX,
      legend: { show: this.legend, live: true },
      cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, ...(this.legend ? {} : NEAREST) },
      focus: { alpha: 1 }, // less would draw every curve again whenever the pointer comes to another
      select: { show: true },
      scales: { x: { time: false, range: () => this.span.range }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      series: [{ label: "time", value: (_, value) => (value == null ? "–" : `${value.toFixed(2)} s`) }, ...series],
      axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => `${+tick.toFixed(2)} s`), size: 32 },
        { ...axis, size: 68, values: (_, ticks) => ticks.map((tick) => (this.data[0].length ? this.show(tick) : "")) }],
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

  #resize() {
    const width = Math.floor(this.place.clientWidth);
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT_PX });
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
    setText(this.under, value == null ? "" : `${curve.label} at ${data[0][at].toFixed(2)} s: ${this.show(value)}`);
  }

  #listen(plot) {
    plot.over.addEventListener("dblclick", () => this.span.fix(null, null));
    plot.over.addEventListener("wheel", (event) => {
      // The page scrolls as everywhere; with a key held, or sideways, the time does.
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
    ctx.textAlign = "left"; // the axes leave it in the middle
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

  #drawMarks(plot) {
    const marks = this.look.marks?.() ?? [];
    const { ctx, bbox } = plot;
    const [size, bottom] = [6 * devicePixelRatio, bbox.top + bbox.height];
    ctx.save();
    ctx.textAlign = "left";
    for (const { time, kind } of marks) {
      const at = plot.valToPos(time, "x", true);
      if (at < bbox.left || at > bbox.left + bbox.width) continue;
      ctx.fillStyle = ctx.strokeStyle = colour(kind === "timeout" ? "timeout" : "loss");
      ctx.beginPath();
      if (kind === "timeout") {
        ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        ctx.lineWidth = 1.5 * devicePixelRatio;
        ctx.moveTo(at, bbox.top);
        ctx.lineTo(at, bottom);
        ctx.stroke();
        ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.fillText("RTO", at + 3 * devicePixelRatio, bottom - 4 * devicePixelRatio);
      } else {
        ctx.moveTo(at, bottom - size * 1.6);
        ctx.lineTo(at - size * 0.8, bottom);
        ctx.lineTo(at + size * 0.8, bottom);
        ctx.fill();
      }
    }
    ctx.restore();
  }
}
