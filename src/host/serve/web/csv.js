// Writes CSV in base units. An unknown value is empty.

/** One field, quoted if necessary. An apostrophe keeps spreadsheets from evaluating text as a formula. */
function field(value) {
  if (value == null) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A line of names, then one line per row. */
export function csv(names, rows) {
  return [names, ...rows].map((row) => row.map(field).join(",") + "\n").join("");
}
