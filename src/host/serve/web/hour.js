// The last hour from the stream: everything once, then the newest values.

/** The arm that a policy does not change: the baseline for the others. */
export const BASELINE = "keep";
/** The five figures of every line. */
export const FIGURES = ["goodput_bps", "retrans_ratio", "rtt_p50_us", "rtt_p95_us", "sockets"];

/** Lines for all connections, for algorithms and for arms, with columns over the same times. */
export class Hour {
  constructor() {
    /** Lines by id. */
    this.lines = new Map();
    this.step_ms = 0;
    /** Numbers of the first and the newest value. */
    this.from = this.newest = 0;
    this.changes = [];
  }

  /** A copy that later frames do not change. */
  copy() {
    const columns = (line) => Object.fromEntries(FIGURES.map((name) => [name, [...line[name]]]));
    const lines = new Map([...this.lines].map(([id, line]) => [id, { ...line, ...columns(line) }]));
    return Object.assign(new Hour(), this, { lines });
  }

  /** Applies a frame: "overview" has everything, "recent" the newest values. */
  take(kind, frame) {
    const values = frame.series[0]?.goodput_bps.length ?? 0;
    const [from, newest] = [frame.newest - values + 1, frame.newest];
    // Values missed while the stream was broken come with the next frame that has everything.
    if (kind === "overview" || newest < this.newest) {
      this.lines.clear();
      this.from = from;
    }
    this.from = Math.max(this.from, frame.first, newest - frame.slots + 1);
    Object.assign(this, { newest, step_ms: frame.step_ms, changes: frame.changes });
    const known = new Set(frame.series.map((line) => line.id));
    for (const id of this.lines.keys()) if (!known.has(id)) this.lines.delete(id);
    for (const line of frame.series) this.lines.set(line.id, this.#merged(line, from));
  }

  #merged(line, from) {
    const before = this.lines.get(line.id);
    const length = this.newest - this.from + 1;
    const column = (name) => {
      const own = before?.[name] ?? [];
      const values = new Array(length).fill(null);
      own.forEach((value, at) => {
        const place = before.from + at - this.from;
        if (place >= 0 && place < length) values[place] = value;
      });
      line[name].forEach((value, at) => {
        const place = from + at - this.from;
        if (place >= 0) values[place] = value;
      });
      return values;
    };
    return { ...line, from: this.from, ...Object.fromEntries(FIGURES.map((name) => [name, column(name)])) };
  }

  /** The end of each value's step, milliseconds of the host's clock; for the newest value, the present. */
  times(now_ms) {
    return Array.from({ length: this.newest - this.from + 1 }, (_, at) => Math.min((this.from + at + 1) * this.step_ms, now_ms));
  }
}

/** The latest known value of a column, unless it is older than two steps. */
export function latest(values) {
  return values.slice(-2).reduceRight((found, value) => found ?? value, null);
}

/** Groups lines for charts: the algorithms, and the arms of each rule with the baseline first. */
export function groups(lines) {
  const wanted = new Map();
  const algorithms = lines.filter((line) => line.algorithm !== null || line.kind === "other_algorithms");
  const all = lines.filter((line) => line.kind === "host");
  wanted.set("", { title: "Algorithms", lines: [...all, ...algorithms] });
  const arms = lines.filter((line) => line.kind === "arm" || line.kind === "other_arms");
  for (const rule of new Set(arms.map((line) => line.rule))) {
    const own = arms.filter((line) => line.rule === rule);
    own.sort((a, b) => (b.arm === BASELINE) - (a.arm === BASELINE));
    wanted.set(`rule ${rule}`, { title: rule === null ? "Other arms" : `Rule ${rule}`, lines: own, rule });
  }
  return wanted;
}
