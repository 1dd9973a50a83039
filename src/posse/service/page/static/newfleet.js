// A form that makes a fleet: a name, the arms, and what a context is made of.

import { path, send } from "./api.js";
import { confirmed } from "./dialog.js";
import { h, setHidden, setText } from "./dom.js";
import { href } from "./route.js";

const KINDS = { number: "a number", binary: "yes or no", count: "a count", revenue: "revenue" };
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

// "hour" is a number, "weather: sun, rain" one of these.
export function featureOf(line) {
  const [name, categories] = line.split(/:(.*)/su);
  if (categories === undefined) return name.trim();
  const each = categories.split(",").map((part) => part.trim()).filter(Boolean);
  return { kind: "one_hot", name: name.trim(), categories: each };
}

function area(id, title, hint, placeholder) {
  const field = h("textarea", { id, rows: "4", placeholder, spellcheck: "false", required: id !== "new-features" });
  const about = h("p", { class: "hint", id: `${id}-hint` }, hint);
  field.setAttribute("aria-describedby", about.id);
  return { field, element: h("div", { class: "field" }, h("label", { for: id }, title), field, about) };
}

export function newFleetForm() {
  const name = h("input", {
    id: "new-name",
    required: true,
    maxlength: "64",
    autocomplete: "off",
    pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*",
    title: "Letters, digits, dots, dashes and underscores",
    placeholder: "stores",
  });
  const arms = area("new-arms", "Arms", "What is chosen among, one per line.", "coffee\ncake");
  const features = area(
    "new-features",
    "Context",
    "What is known when it is decided, one per line: a name for a number; a name, a colon and the values for a choice.",
    "hour\nweather: sun, cloud, rain",
  );
  const rewards = h(
    "select",
    { id: "new-rewards" },
    h("option", { value: "number" }, "A number (sales, minutes, a rating)"),
    h("option", { value: "binary" }, "Yes or no (a click, a purchase)"),
    h("option", { value: "count" }, "A count (items, visits)"),
    h("option", { value: "revenue" }, "Revenue (0 from most, an amount from some)"),
  );
  const days = h("input", { id: "new-days", type: "number", min: "0.01", max: "3650", step: "any", value: "30", required: true });
  const absent = h("input", { id: "new-absent", type: "checkbox" });
  const budget = h("input", { id: "new-budget", type: "checkbox", checked: true });
  const form = h(
    "form",
    { class: "card stack", hidden: true },
    h("h2", null, "A new fleet"),
    h("div", { class: "field" }, h("label", { for: "new-name" }, "Name"), name),
    arms.element,
    features.element,
    h("div", { class: "field" }, h("label", { for: "new-rewards" }, "A reward is"), rewards),
    h("div", { class: "field" }, h("label", { for: "new-days" }, "A reward may come within so many days"), days),
    h("label", { class: "check", for: "new-absent" }, absent, "If none has come by then, it counts as 0"),
    h(
      "label",
      { class: "check", for: "new-budget" },
      budget,
      "Keep the log good enough to tell what deciding gains (costs about 1% of that gain)",
    ),
    h("div", { class: "pages" }, h("button", { type: "submit", class: "main" }, "Make this fleet")),
  );
  const button = h("button", { type: "button", "aria-expanded": "false" }, "New fleet");
  button.addEventListener("click", () => {
    setHidden(form, !form.hidden);
    button.setAttribute("aria-expanded", String(!form.hidden));
    setText(button, form.hidden ? "New fleet" : "Close");
    if (!form.hidden) name.focus();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = {
      arms: lines(arms.field.value),
      features: lines(features.field.value).map(featureOf),
      rewards: rewards.value,
      time_to_live: 86400 * Number(days.value),
      evaluation_budget: budget.checked ? 0.01 : 0,
      ...(absent.checked ? { absent_reward: 0 } : {}),
    };
    const context = body.features.map((one) => (typeof one === "string" ? one : one.name)).join(", ");
    await confirmed({
      title: `Make the fleet ${name.value}?`,
      lines: [
        `Every task chooses among ${body.arms.join(", ")}.`,
        `${context ? `A context has ${context}` : "There is no context"}.`,
        `A reward is ${KINDS[rewards.value]}, within ${days.value} days${absent.checked ? ", else 0" : ""}. None of this can be changed later.`,
      ],
      action: "Make it",
      work: () => send("PUT", path("fleets", name.value), body),
    });
    location.hash = href(name.value);
  });
  return { button, form };
}
