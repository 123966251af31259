// The sockets from the stream: everything once, then the changes.

/** Sockets by handle. */
export class Sockets {
  constructor() {
    this.rows = new Map();
    this.now_ms = null;
    /** Whether any socket was in an arm of a policy. */
    this.hasPolicy = false;
  }

  /** A copy that later frames do not change. */
  copy() {
    const rows = new Map([...this.rows].map(([handle, row]) => [handle, { ...row }]));
    return Object.assign(new Sockets(), { rows, now_ms: this.now_ms, hasPolicy: this.hasPolicy });
  }

  /** Applies a frame: "sockets" has everything, "changes" the differences. */
  take(kind, frame) {
    if (kind === "sockets") this.rows.clear();
    for (const [handle, id, peer, local, process, cgroup, algorithm, first_ms, rule, arm] of frame.names) {
      const row = this.rows.get(handle) ?? { handle };
      this.rows.set(handle, Object.assign(row, { id, peer, local, process, cgroup, algorithm, first_ms, rule, arm }));
      this.hasPolicy ||= rule != null;
    }
    for (const values of frame.rows) this.#takeRow(values);
    for (const handle of frame.gone) this.rows.delete(handle);
    this.now_ms = frame.status.now_ms;
    for (const row of this.rows.values()) row.age_ms = this.now_ms - row.first_ms;
  }

  #takeRow(values) {
    const [handle, phase, ca_state, cwnd_pkts, ssthresh_pkts, inflight_pkts] = values;
    const [srtt_us, min_rtt_us, goodput_bps, received_bps, retrans_ratio, is_closed] = values.slice(6);
    const row = this.rows.get(handle);
    if (!row) return;
    Object.assign(row, { phase, ca_state, cwnd_pkts, ssthresh_pkts, inflight_pkts });
    Object.assign(row, { srtt_us, min_rtt_us, goodput_bps, received_bps, retrans_ratio, is_closed });
  }
}

const COLUMNS = ["time_ms", "cwnd_pkts", "ssthresh_pkts", "inflight_pkts", "srtt_us", "min_rtt_us", "goodput_bps", "phase", "ca_state"];
/** Columns in which 0 means no sample. */
const SAMPLED = new Set(["srtt_us", "min_rtt_us"]);
/** Limits of the past that a page keeps. */
const PAST_MS = 600_000;
const MOMENTS_MAX = 20_000;

/** Values of a column; null if there is no sample. */
function known(name, values) {
  return SAMPLED.has(name) ? values.map((value) => (value === 0 ? null : value)) : values;
}

/** One socket over time. */
export class Flow {
  constructor() {
    this.clear();
  }

  clear() {
    this.moments = Object.fromEntries(COLUMNS.map((name) => [name, []]));
    this.marks = [];
    this.phases = new Map();
    this.state = [];
    this.socket = null;
  }

  /** A copy that later frames do not change. */
  copy() {
    const moments = Object.fromEntries(COLUMNS.map((name) => [name, [...this.moments[name]]]));
    return Object.assign(new Flow(), this, { moments, marks: this.marks.map((mark) => ({ ...mark })) });
  }

  /** Applies a frame: "flow" has everything, "moments" the new values, "unknown" nothing. */
  take(kind, frame) {
    if (kind !== "moments") this.clear();
    if (kind === "unknown") return;
    Object.assign(this, { socket: frame.socket, phases: new Map(frame.phases), state: frame.state });
    const times = this.moments.time_ms;
    const last = times.length ? times[times.length - 1] : -Infinity;
    const first = frame.moments.time_ms.findIndex((time) => time > last);
    if (first >= 0) {
      for (const name of COLUMNS) this.moments[name].push(...known(name, frame.moments[name].slice(first)));
    }
    for (const [time_ms, kind, count] of frame.marks) {
      const known = this.marks.find((mark) => mark.time_ms === time_ms && mark.kind === kind);
      if (known) known.count = count;
      else this.marks.push({ time_ms, kind, count });
    }
    this.#forget(frame.status.now_ms - PAST_MS);
  }

  #forget(before_ms) {
    const times = this.moments.time_ms;
    const old = Math.max(times.findIndex((time) => time >= before_ms), times.length - MOMENTS_MAX, 0);
    if (old > 0) COLUMNS.forEach((name) => this.moments[name].splice(0, old));
    this.marks = this.marks.filter((mark) => mark.time_ms >= before_ms);
  }
}
