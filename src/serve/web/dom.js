// Elements without HTML in strings: nothing that a host or a recording says can become markup.

/** An element with attributes, handlers (`onclick: f`) and children; text stays text. */
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

/** Sets text only where it differs: what is unchanged is neither drawn nor read out again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Offers text as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
