// The last hour as the stream tells it: everything once, then the newest values.

/** The arm that a policy leaves as it is: what the others are compared with. */
export const BASELINE = "keep";
/** The five figures of every line. */
export const FIGURES = ["goodput_bps", "retrans_ratio", "rtt_p50_us", "rtt_p95_us", "sockets"];

/** Lines of all connections, of algorithms and of arms, each with its columns over the same times. */
export class Hour {
  constructor() {
    /** Lines by their numbers. */
    this.lines = new Map();
    this.step_ms = 0;
    /** Numbers of the first and the newest value. */
    this.from = this.newest = 0;
    this.changes = [];
  }

  /** As it is now, whatever comes. */
  copy() {
    const columns = (line) => Object.fromEntries(FIGURES.map((name) => [name, [...line[name]]]));
    const lines = new Map([...this.lines].map(([id, line]) => [id, { ...line, ...columns(line) }]));
    return Object.assign(new Hour(), this, { lines });
  }

  /** Takes in a frame; "overview" says everything, "recent" the newest values. */
  take(kind, frame) {
    const values = frame.series[0]?.goodput_bps.length ?? 0;
    const [from, newest] = [frame.newest - values + 1, frame.newest];
    // What was missed in between, while the stream was broken, comes with a frame that says everything.
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

  /** The end of each value's time, milliseconds of the host's clock; that of the newest has not ended. */
  times(now_ms) {
    return Array.from({ length: this.newest - this.from + 1 }, (_, at) => Math.min((this.from + at + 1) * this.step_ms, now_ms));
  }
}

/** The latest value of a column that is known, unless it is older than two steps. */
export function latest(values) {
  return values.slice(-2).reduceRight((found, value) => found ?? value, null);
}

/** What is drawn together: algorithms, and the arms of each rule with the baseline first. */
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
