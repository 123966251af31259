// Formats quantities; "–" is an unknown value.

export const NOTHING = "–";

const RATE_UNITS = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

/** Three significant digits. */
export function digits(value) {
  if (value === 0) return "0";
  const whole = Math.abs(value);
  if (whole >= 100) return value.toFixed(0);
  return whole >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Bits per second. */
export function rate(bps) {
  if (bps == null) return NOTHING;
  let [value, unit] = [bps, 0];
  while (value >= 999.5 && unit < RATE_UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value.toFixed(0) : digits(value)} ${RATE_UNITS[unit]}`;
}

/** Microseconds. */
export function time(us) {
  if (us == null) return NOTHING;
  if (us < 1000) return `${us.toFixed(0)} µs`;
  return us < 999500 ? `${digits(us / 1000)} ms` : `${digits(us / 1e6)} s`;
}

/** A share of 1. */
export function share(ratio) {
  if (ratio == null) return NOTHING;
  return ratio === 0 ? "0 %" : `${digits(ratio * 100)} %`;
}

/** Packets. */
export function packets(count) {
  return count == null ? NOTHING : count.toLocaleString("en");
}

/** Bytes. */
export function bytes(count) {
  if (count == null) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, unit] = [count, 0];
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : digits(value)} ${units[unit]}`;
}

/** Milliseconds of age. */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** Seconds, in at most two units up to days. */
export function clock(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.max(0, Math.round(seconds));
  const words = [];
  for (const [unit, length] of units) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) words.push(`${count} ${unit}`);
  }
  return words.slice(0, 2).join(" ") || "0 s";
}

/** A number without a unit. */
export function plain(value) {
  if (value == null) return NOTHING;
  return value !== 0 && Math.abs(value) < 0.1 ? String(+value.toPrecision(2)) : digits(value);
}

/** A configured share. */
export function portion(share) {
  return `${+(share * 100).toFixed(2)} %`;
}

/** An e-value, which spans many powers of ten. */
export function evidence(value) {
  if (value == null) return NOTHING;
  if (value >= 10_000) return value.toExponential(0).replace("e+", "e");
  return value >= 0.01 ? String(+value.toPrecision(2)) : value.toPrecision(1);
}
