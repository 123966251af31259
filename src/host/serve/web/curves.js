// The curves of a plot of many sockets. Each of the first sockets in a list has one, which grows by a value per tick.

import { firstFree } from "./colours.js";

const CURVES_MAX = 200;
const MOMENTS_MAX = 600;

export class Curves {
  constructor() {
    this.clear();
  }

  clear() {
    this.begin_ms = this.last_ms = null;
    /** Seconds since the first moment. */
    this.times = [];
    /** By handle. A curve stays while its socket is in the list. */
    this.all = new Map();
    this.numbers = new Set();
  }

  /** Adds the values of the rows at a moment; returns whether the set of curves changed. */
  take(rows, now_ms, value) {
    const isSetBack = this.last_ms !== null && now_ms < this.last_ms;
    if (isSetBack) this.clear();
    this.begin_ms ??= now_ms;
    // The same moment again, because a recording is paused, or the order or filter changed.
    if (now_ms === this.last_ms) this.data.forEach((it) => it.pop());
    const known = new Map(rows.map((row) => [row.handle, row]));
    const isChanged = this.#choose(rows, known);
    this.last_ms = now_ms;
    this.times.push((now_ms - this.begin_ms) / 1000);
    for (const [handle, curve] of this.all) curve.values.push(value(known.get(handle)) ?? null);
    this.#forget();
    return isChanged || isSetBack;
  }

  /** Cookies of the curves whose past has not been requested yet. */
  get unasked() {
    return [...this.all.values()].filter((curve) => !curve.isAsked).map((curve) => curve.id);
  }

  /** Marks the past of these curves as requested, or as not requested. */
  ask(cookies, isAsked = true) {
    const asked = new Set(cookies);
    for (const curve of this.all.values()) if (asked.has(curve.id)) curve.isAsked = isAsked;
  }

  /** Adds the past: times, and values by cookie. Values that the page saw itself stay. */
  takePast({ begin_ms, step_ms, curves }) {
    if (this.begin_ms === null) return;
    const [length, first_ms] = [Object.values(curves)[0]?.length ?? 0, this.begin_ms + this.times[0] * 1000];
    const past = Array.from({ length }, (_, at) => begin_ms + at * step_ms);
    // Leaves out the time before the first value.
    const known = Object.values(curves).map((values) => values.findIndex((value) => value !== null)).filter((at) => at >= 0);
    const begin = Math.min(length, ...known);
    const before = past.slice(begin).filter((ms) => ms < first_ms - step_ms / 2);
    this.times.unshift(...before.map((ms) => (ms - this.begin_ms) / 1000));
    for (const curve of this.all.values()) {
      const own = curves[curve.id];
      curve.values.unshift(...(own?.slice(begin, begin + before.length) ?? new Array(before.length).fill(null)));
      if (!own) continue;
      // A curve that was listed after the start of the plot also has a past.
      for (let at = before.length; at < this.times.length && curve.values[at] == null; at += 1) {
        const place = Math.round((this.begin_ms + this.times[at] * 1000 - begin_ms) / step_ms);
        curve.values[at] = own[place] ?? null;
      }
    }
    this.#forget();
  }

  /** Times, then the values of each curve. */
  get data() {
    return [this.times, ...[...this.all.values()].map((curve) => curve.values)];
  }

  #forget() {
    const old = this.times.length - MOMENTS_MAX;
    if (old > 0) this.data.forEach((it) => it.splice(0, old));
  }

  #choose(rows, known) {
    const before = this.all.size;
    for (const [handle, curve] of this.all) {
      if (known.has(handle)) continue;
      this.all.delete(handle);
      this.numbers.delete(curve.number);
    }
    let isChanged = this.all.size !== before;
    for (const row of rows) {
      if (this.all.size >= CURVES_MAX) break;
      if (this.all.has(row.handle)) continue;
      const number = firstFree(this.numbers);
      this.numbers.add(number);
      this.all.set(row.handle, { id: row.id, label: row.peer, number, isAsked: false, values: new Array(this.times.length).fill(null) });
      isChanged = true;
    }
    return isChanged;
  }
}
