// Asking before something is changed: what will happen, and a button that says it.

import { h } from "./dom.js";
import { sentence } from "./format.js";

// Resolves when it is done, and never if the reader thinks better of it; what fails is said in the dialog.
export function confirmed({ title, lines, action, work }) {
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert" });
    const go = h("button", { type: "submit", class: "main" }, action);
    const stop = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const form = h(
      "form",
      { method: "dialog", class: "stack" },
      h("h2", null, title),
      ...lines.map((line) => h("p", null, line)),
      problem,
      h("div", { class: "pages" }, go, stop),
    );
    const dialog = h("dialog", { class: "card dialog" }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      problem.textContent = "";
      try {
        const result = await work();
        dialog.close();
        resolve(result);
      } catch (error) {
        problem.textContent = sentence(error.message);
        go.disabled = false;
      }
    });
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    stop.focus();
  });
}
