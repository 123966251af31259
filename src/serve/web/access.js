// The token: from the address (`#token=…`, which no browser sends) or from a form, kept in a cookie that no script reads.

import { element } from "./dom.js";

/** Turns a token into a cookie; else why not, in a sentence. */
export async function openSession(token) {
  const answer = await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  if (answer.ok) return null;
  return answer.status === 401 ? "That token is wrong." : (await answer.text()).trim();
}

/** Uses the token in the address, when there is one, and takes it out of the address. */
export async function useTokenOfAddress() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname + "#/overview");
  await openSession(token); // of characters that an address shows as they are
}

/** Asks for the token until it is right. */
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
