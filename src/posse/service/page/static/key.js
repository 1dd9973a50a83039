// Asking for the API key. It is kept for this tab only and sent in a header, never in an address.

import { keepKey } from "./api.js";
import { code, h } from "./dom.js";
import { sentence } from "./format.js";

export function keyView(error, entered) {
  const refused = error.code !== "key_required";
  const why = refused ? sentence(error.message) : "This service asks for an API key.";
  const field = h("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    pattern: "\\s*[!-~]+\\s*",
    title: "Letters, digits and signs, without spaces",
    "aria-describedby": "key-why",
    "aria-invalid": refused ? "true" : null,
  });
  const form = h(
    "form",
    { class: "card stack key-form" },
    h("h1", { tabindex: "-1", "data-heading": true }, "API key"),
    h("p", { id: "key-why", class: refused ? "problem" : null }, why),
    h("div", { class: "field" }, h("label", { for: "key" }, "Key with the scope read"), field),
    h("div", null, h("button", { type: "submit", class: "main" }, "Continue")),
    h("p", { class: "hint" }, "The key stays in this tab until it is closed. Make one on the machine of the service:"),
    code("posse service keys create --scope read"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepKey(field.value.trim());
    entered();
  });
  return { element: form, title: "API key", field };
}
