// The dark or light theme: the system's until the user chooses.

const KEY = "tccc-theme";
const NEXT = { auto: "dark", dark: "light", light: "auto" };
const SIGNS = { auto: "◐ Auto", dark: "● Dark", light: "○ Light" };

/** Connects the button; `changed` is called when colours change. */
export function followTheme(button, changed) {
  let theme = localStorage.getItem(KEY) ?? "auto";
  if (!(theme in NEXT)) theme = "auto";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    button.textContent = SIGNS[theme];
    button.setAttribute("aria-label", `Colours: ${theme}`);
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    localStorage.setItem(KEY, theme);
    apply();
    changed();
  });
  dark.addEventListener("change", () => {
    apply();
    changed();
  });
  apply();
}

/** A colour of the style sheet. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
