// Creates elements without HTML strings, so that text from a host or a recording cannot become markup.

/** Creates an element with attributes, handlers (`onclick: f`) and children. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** Sets text only if it differs, so unchanged text is neither redrawn nor read out again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Downloads text as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
