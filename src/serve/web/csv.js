// What is seen, as CSV in base units; a value that is not known is empty.

/** One field, quoted where it must be; a word that a spreadsheet would compute is kept a word. */
function field(value) {
  if (value == null) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Names, then one line per row. */
export function csv(names, rows) {
  return [names, ...rows].map((row) => row.map(field).join(",") + "\n").join("");
}
