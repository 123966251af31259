// The token, from the address (`#token=…`, which browsers do not send) or from a form. A cookie that scripts cannot read
// stores it.

import { element } from "./dom.js";

/** Exchanges a token for a cookie; returns the reason if that fails, as a sentence. */
export async function openSession(token) {
  if (!/^[\x21-\x7e]+$/.test(token)) return "That token is wrong."; // it would not be a valid header
  const answer = await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } }).catch(() => null);
  if (!answer) return "The server did not answer.";
  if (answer.ok) return null;
  return answer.status === 401 ? "That token is wrong." : (await answer.text()).trim();
}

/** Uses the token in the address, if there is one, and removes it from the address. */
export async function useTokenOfAddress() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname + "#/overview");
  await openSession(token); // tokens have no characters that an address would encode
}

/** Asks for the token until it is accepted. */
export function askForToken(host, sentence, done) {
  const field = element("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const says = element("p", { role: "alert" }, sentence);
  const onsubmit = async (event) => {
    event.preventDefault();
    const refusal = await openSession(field.value.trim());
    if (refusal === null) done();
    else says.textContent = refusal;
  };
  const label = element("label", { for: "token" }, "Token that `tccc serve` printed");
  const form = element("form", { class: "access", onsubmit }, element("h1", {}, "Token needed"), says, label, field,
    element("button", { type: "submit" }, "Open"));
  host.replaceChildren(form);
  field.focus();
}
