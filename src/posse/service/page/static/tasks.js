// The tasks of a fleet: search by name, page by page.

import { get, path } from "./api.js";
import { code, empty, h, headRow, keyed, label, setHidden, setText } from "./dom.js";
import { count, moment, plural, timeOf } from "./format.js";
import { example } from "./overview.js";
import { amend, href } from "./route.js";

const PAGE = 25;
const PAUSE = 200; // milliseconds after the last letter

export function tasksPanel({ fleet, route, latest, soon }) {
  let search = route.query.search ?? "";
  let starts = [""]; // the name after which every page up to this one begins
  let next = null;
  let timer = 0;

  const field = h("input", {
    id: "search",
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "1000",
    placeholder: "Part of a name",
  });
  field.value = search;
  const body = h("tbody");
  const columns = [
    ["Decisions", "text"],
    ["Rewards", "text"],
    ["First seen", "text wide-only"],
  ];
  const table = h(
    "table",
    { class: "plain" },
    h("caption", { class: "hidden-text" }, "Tasks"),
    headRow([["Task", "wide-name"], ...columns]),
    body,
  );
  const none = empty("No tasks yet", "A task comes with its first decision:");
  none.hidden = true;
  const found = h("p", { class: "hint", role: "status" });
  const previous = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const following = h("button", { type: "button", onclick: () => turn(1) }, "Next");
  const pages = h("nav", { class: "pages", "aria-label": "Pages of tasks" }, previous, found, following);
  const list = h(
    "div",
    { class: "card" },
    h("div", { class: "field" }, h("label", { for: "search" }, "Search tasks"), field),
    table,
    pages,
  );
  const element = h("div", { class: "stack" }, none, list);

  function turn(by) {
    if (by > 0 && next !== null) starts.push(next);
    else if (by < 0 && starts.length > 1) starts.pop();
    soon();
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      search = field.value.trim();
      starts = [""];
      amend(href(fleet, "tasks", null, { search }));
      soon();
    }, PAUSE);
  });

  function make(task) {
    const cells = columns.map(([, kind]) => h("td", { class: kind }));
    const link = h("a", { href: href(fleet, "tasks", task.task) }, label(task.task));
    return { element: h("tr", null, h("th", { scope: "row" }, link), ...cells), cells };
  }

  return {
    element,
    seconds: 5,
    accepts: () => true,
    show(to) {
      const wanted = to.query.search ?? "";
      if (wanted === search) return;
      search = wanted;
      field.value = wanted;
      starts = [""];
    },
    update(now) {
      setHidden(none, now.tasks > 0);
      setHidden(list, now.tasks === 0);
      if (now.tasks === 0 && !none.querySelector("pre")) none.append(code(example(latest())));
    },
    async load(signal) {
      const asked = { search, after: starts.at(-1) };
      const answer = await get(path("fleets", fleet, "tasks"), { signal, params: { ...asked, limit: PAGE } });
      next = answer.next;
      keyed(body, answer.tasks, (task) => task.task, make, (row, task) => {
        const texts = [count(task.decisions), count(task.rewards), moment(timeOf(task.first_time), false)];
        texts.forEach((text, k) => setText(row.cells[k], text));
      });
      const page = starts.length;
      const only = page === 1 && next === null;
      previous.disabled = page === 1;
      following.disabled = next === null;
      setHidden(previous, only);
      setHidden(following, only);
      if (answer.tasks.length > 0) setText(found, only ? plural(answer.tasks.length, "task") : `Page ${page}`);
      else setText(found, search && page === 1 ? `No task has “${search}” in its name.` : "No more tasks.");
    },
    stop() {
      clearTimeout(timer);
    },
  };
}
