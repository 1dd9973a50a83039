// Try a context: what every arm is expected to earn in a situation, without deciding anything.

import { path, send } from "./api.js";
import { freshId, h, setHidden, setText } from "./dom.js";
import { CONFIDENCE, between, chance, number, sentence } from "./format.js";
import { loadInsights } from "./insights.js";
import { domainOf, intervals, legend } from "./intervals.js";
import { featureName } from "./words.js";

const PAUSE = 250; // milliseconds after the last change

// A field for a feature, and how its value is read.
function fieldOf(feature, changed) {
  const name = featureName(feature);
  const id = freshId("try");
  const categories = feature.categories ?? null;
  let field;
  const options = categories?.map((value, k) => h("option", { value: k }, String(value)));
  if (categories) field = h("select", { id }, ...options);
  else if (feature.kind === "hashed") field = h("input", { id, autocomplete: "off", maxlength: "1000" });
  else {
    const start = String(feature.center ?? 0);
    field = h("input", { id, type: "number", step: "any", inputmode: "decimal", value: start });
  }
  field.addEventListener("input", changed);
  const read = () => {
    if (categories) return categories[Number(field.value)];
    if (feature.kind === "hashed") return field.value;
    return field.value === "" ? null : Number(field.value);
  };
  const title = h("label", { for: id }, h("bdi", null, name));
  return { name, read, field, element: h("div", { class: "field" }, title, field) };
}

function verdict({ arms, task, known }) {
  const best = arms.reduce((one, other) => (other.mean > one.mean ? other : one));
  const where = known ? `In ${task}` : task ? `In a task that has no rewards yet (${task})` : "In a new task";
  const earns = `${number(best.mean)} (${between(best.low, best.high)})`;
  const sure = `it is the best with probability ${chance(best.probability_best)}`;
  return [`${where}, `, best.arm, ` is expected to earn most: ${earns}; ${sure}.`];
}

export function tryPanel({ fleet, latest, soon }) {
  let timer = 0;
  let dirty = true;
  const changed = () => {
    dirty = true;
    clearTimeout(timer);
    timer = setTimeout(soon, PAUSE);
  };
  const list = h("datalist", { id: "try-tasks" });
  const task = h("input", {
    id: "try-task",
    list: "try-tasks",
    autocomplete: "off",
    maxlength: "1000",
    placeholder: "A new task",
  });
  task.addEventListener("input", changed);
  const fields = latest().definition.features.map((feature) => fieldOf(feature, changed));
  const said = h("p", { class: "verdict", role: "status" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const graph = intervals({
    caption: "Expected reward of every arm",
    head: "Arm",
    unit: "expected reward",
    columns: [
      ["Expected", (row) => number(row.value), "short"],
      [`${CONFIDENCE} interval`, (row) => between(row.low, row.high), "long wide-only"],
      ["Is best", (row) => chance(row.best), "short"],
      ["Is chosen", (row) => chance(row.chosen), "short wide-only"],
    ],
  });
  const result = h(
    "div",
    { class: "card stack", hidden: true },
    said,
    legend([
      ["dot", "expected reward"],
      ["inner", `${CONFIDENCE} interval`],
    ]),
    graph.element,
    h(
      "p",
      { class: "hint" },
      "Is best: the probability that this arm earns most here.",
      h("span", { class: "wide-only" }, " Is chosen: the probability that it would be taken now, exploration included."),
    ),
  );
  const form = h(
    "form",
    { class: "card stack" },
    h("div", null, h("h2", null, "Try a context"), h("p", { class: "hint" }, "Nothing is decided, learned or logged.")),
    h(
      "div",
      { class: "fields" },
      h("div", { class: "field" }, h("label", { for: "try-task" }, "Task"), task, list),
      ...fields.map((one) => one.element),
    ),
    problem,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    changed();
  });

  function draw(found) {
    const [before, arm, after] = verdict(found);
    said.replaceChildren(before, h("strong", null, h("bdi", null, arm)), after);
    const rows = found.arms
      .map(({ arm, mean, low, high, probability_best: best, probability: chosen }) => {
        return { name: arm, label: true, value: mean, low, high, best, chosen };
      })
      .sort((a, b) => b.value - a.value);
    graph.draw(rows, domainOf(rows));
    setHidden(result, false);
  }

  return {
    element: h("div", { class: "stack" }, form, result),
    seconds: 5,
    accepts: () => true,
    show() {},
    async load(signal) {
      const context = Object.fromEntries(fields.map((one) => [one.name, one.read()]));
      const name = task.value.trim();
      try {
        const body = { task: name || "a new task", context };
        const found = await send("POST", path("fleets", fleet, "expected"), body, { signal });
        draw({ ...found, task: name, known: found.known && name !== "" });
        setHidden(problem, true);
      } catch (error) {
        if (error.status !== 422) throw error;
        setText(problem, sentence(error.message));
        setHidden(problem, false);
        setHidden(result, true);
      }
      if (dirty && !list.childElementCount) {
        const { tasks } = await loadInsights(fleet, signal);
        list.replaceChildren(...tasks.map((one) => h("option", { value: one.task })));
      }
      dirty = false;
    },
    stop() {
      clearTimeout(timer);
    },
  };
}
