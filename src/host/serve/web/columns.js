// The columns of the table of sockets, with the names and units of `tccc top`.

import * as format from "./format.js";

/**
 * name: the name in filters and CSV; label: the heading; value: in base units; show: formats a value;
 * unit: the unit in a filter; width: in characters; phone: the width on a phone, if the column is shown there.
 */
const text = (name, label, width, value, phone) => ({ name, label, width, value, phone, isText: true, show: (v) => v ?? format.NOTHING });
/** A column that is shown only with a policy. */
const ofPolicy = (...its) => ({ ...text(...its), isOfPolicy: true });
const number = (name, label, width, value, show, unit, phone) => ({ name, label, width, value, show, unit, phone, isText: false });

/** The most useful columns come first. */
export const COLUMNS = [
  text("peer", "Peer", 19, (it) => it.peer, 17),
  text("process", "Process", 13, (it) => it.process),
  text("algorithm", "Algorithm", 11, (it) => it.algorithm, 10),
  ofPolicy("rule", "Rule", 12, (it) => it.rule),
  ofPolicy("arm", "Arm", 10, (it) => it.arm, 9),
  text("phase", "Phase", 11, (it) => it.phase),
  text("ca_state", "State", 9, (it) => it.ca_state),
  number("cwnd", "cwnd", 6, (it) => it.cwnd_pkts, format.packets, "packets"),
  number("ssthresh", "ssthresh", 8, (it) => it.ssthresh_pkts, format.packets, "packets"),
  number("inflight", "In flight", 8, (it) => it.inflight_pkts, format.packets, "packets"),
  number("srtt", "srtt", 8, (it) => it.srtt_us, format.time, "time"),
  number("min_rtt", "min_rtt", 8, (it) => it.min_rtt_us, format.time, "time"),
  number("goodput", "Goodput", 11, (it) => it.goodput_bps, format.rate, "rate", 13),
  number("received", "Received", 11, (it) => it.received_bps, format.rate, "rate"),
  number("retrans", "Retrans", 8, (it) => it.retrans_ratio, format.share, "share", 9),
  number("age", "Age", 11, (it) => it.age_ms, format.age, "age"),
  text("local", "Local", 20, (it) => it.local),
  text("cgroup", "cgroup", 22, (it) => it.cgroup),
];

/** Suffix of a column's name in CSV: its base unit. */
export const CSV_UNITS = { packets: "_pkts", time: "_us", rate: "_bps", share: "_ratio", age: "_ms" };

export function columnNamed(name) {
  return COLUMNS.find((column) => column.name === name);
}

/** Sorts rows: text from a to z, numbers from the largest. Unknown values always come last. */
export function sortRows(rows, column, reversed) {
  const sign = reversed ? -1 : 1;
  const keyed = rows.map((row) => [column.value(row), row]);
  keyed.sort(([a, rowA], [b, rowB]) => {
    if (a == null || b == null) return a == b ? rowA.handle - rowB.handle : a == null ? 1 : -1;
    const order = column.isText ? (a < b ? -1 : a > b ? 1 : 0) : b - a;
    return order === 0 ? rowA.handle - rowB.handle : order * sign;
  });
  return keyed.map(([, row]) => row);
}
