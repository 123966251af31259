// What a plot of many sockets draws: one curve for each of the first of a list, one moment more whenever the clock went on.

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
    /** By handles; those that were begun stay while they are in the list. */
    this.all = new Map();
  }

  /** Takes in the values of the rows at a moment; whether the curves are other ones than before. */
  take(rows, now_ms, value) {
    const isSetBack = this.last_ms !== null && now_ms < this.last_ms;
    if (isSetBack) this.clear();
    this.begin_ms ??= now_ms;
    // The same moment again: a paused recording, another order, another filter.
    if (now_ms === this.last_ms) this.data.forEach((it) => it.pop());
    const known = new Map(rows.map((row) => [row.handle, row]));
    const isChanged = this.#choose(rows, known);
    this.last_ms = now_ms;
    this.times.push((now_ms - this.begin_ms) / 1000);
    for (const [handle, curve] of this.all) curve.values.push(value(known.get(handle)) ?? null);
    if (this.times.length > MOMENTS_MAX) this.data.forEach((it) => it.shift());
    return isChanged || isSetBack;
  }

  /** Times, then the values of each curve. */
  get data() {
    return [this.times, ...[...this.all.values()].map((curve) => curve.values)];
  }

  #choose(rows, known) {
    const before = this.all.size;
    for (const handle of this.all.keys()) if (!known.has(handle)) this.all.delete(handle);
    let isChanged = this.all.size !== before;
    for (const row of rows) {
      if (this.all.size >= CURVES_MAX) break;
      if (this.all.has(row.handle)) continue;
      this.all.set(row.handle, { label: row.peer, values: new Array(this.times.length).fill(null) });
      isChanged = true;
    }
    return isChanged;
  }
}
