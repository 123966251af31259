// Filters for sockets, as in `tccc top`: `cubic`, `process:nginx`, `retrans>2%`, `srtt>50ms`.

import { COLUMNS } from "./columns.js";

const SCALES = {
  time: { us: 1, µs: 1, ms: 1e3, s: 1e6, min: 6e7, h: 3.6e9 },
  age: { ms: 1, s: 1e3, min: 6e4, h: 3.6e6, d: 8.64e7 },
  rate: { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 },
  share: { "%": 0.01 },
};
const EXPECTED = {
  packets: "a number of packets",
  time: "a time such as 50ms",
  age: "a time such as 5min",
  rate: "a rate such as 10mbit",
  share: "a share such as 2%",
};

/** Finds a column by its name or by an unambiguous prefix. */
function columnOf(word) {
  const begun = COLUMNS.filter((column) => word.length >= 2 && column.name.startsWith(word));
  return COLUMNS.find((column) => column.name === word) ?? (begun.length === 1 ? begun[0] : null);
}

function quantity(unit, text) {
  const parts = /^([0-9]+(?:\.[0-9]+)?)(\D*)$/.exec(text);
  if (!parts) return null;
  if (unit === "packets") return parts[2] === "" ? Number(parts[1]) : null;
  const scale = SCALES[unit][parts[2].toLowerCase()];
  return scale === undefined ? null : Number(parts[1]) * scale;
}

function refuse(word, expected) {
  throw new Error(`"${word}": expected ${expected}`);
}

function parseWord(word) {
  const anywhere = (text) => (row) =>
    COLUMNS.some((column) => column.isText && (column.value(row) ?? "").toLowerCase().includes(text));
  const parts = word.startsWith("[") ? null : /^([^:=<>]+)([:=<>])(.*)$/.exec(word);
  if (!parts) return anywhere(word.toLowerCase());
  const [, name, sign, value] = parts;
  const column = columnOf(name);
  if (!column && sign === ":") return anywhere(word.toLowerCase());
  if (!column) refuse(word, `one of ${COLUMNS.map((it) => it.name).join(", ")}`);
  if (column.isText) {
    if (sign === ">" || sign === "<") refuse(word, `${column.name}:text`);
    return (row) => (column.value(row) ?? "").toLowerCase().includes(value.toLowerCase());
  }
  if (sign === ":" || sign === "=") refuse(word, `${column.name}>value or ${column.name}<value`);
  const limit = quantity(column.unit, value) ?? refuse(word, EXPECTED[column.unit]);
  return (row) => {
    const own = column.value(row);
    return own != null && (sign === ">" ? own > limit : own < limit);
  };
}

/** Returns a predicate that holds if a row matches all words. Throws a sentence if a word is invalid. */
export function parseFilter(text) {
  const words = text.split(/\s+/).filter(Boolean).map(parseWord);
  return (row) => words.every((passes) => passes(row));
}
