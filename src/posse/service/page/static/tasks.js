// The tasks of a fleet: search by name, page by page, sorted by name or by what is known about them.

import { get, path } from "./api.js";
import { code, empty, h, keyed, label, setHidden, setText } from "./dom.js";
import { chance, count, number, plural } from "./format.js";
import { loadInsights } from "./insights.js";
import { example } from "./overview.js";
import { amend, href } from "./route.js";

const PAGE = 25;
const PAUSE = 200; // milliseconds after the last letter

// Columns: their name, what they are sorted by, their class, and which end comes first.
const COLUMNS = [
  { key: "task", name: "Task", kind: "wide-name", rises: true },
  { key: "decisions", name: "Decisions", kind: "text" },
  { key: "rewards", name: "Rewards", kind: "text wide-only" },
  { key: "mean_reward", name: "Mean reward", kind: "text" },
  { key: "arm", name: "Best arm", kind: "best-arm wide-only", rises: true },
  { key: "probability", name: "How sure", kind: "text wide-only" },
  { key: "distance", name: "Unusual", kind: "text" },
];

const ABOUT =
  "How sure: the probability that this arm is the best one, at the average context of the task. Unusual: how far a task is from " +
  "the others, in units of the usual difference between tasks; ▲ is further than chance would put any.";

function compared(key) {
  return (a, b) => {
    if (typeof a[key] === "string") return a[key].localeCompare(b[key], undefined, { numeric: true });
    return (a[key] ?? -Infinity) - (b[key] ?? -Infinity);
  };
}

export function tasksPanel({ fleet, route, latest, soon }) {
  let search = route.query.search ?? "";
  let sort = COLUMNS.some((one) => one.key === route.query.sort) ? route.query.sort : "task";
  let up = route.query.order ? route.query.order === "up" : COLUMNS.find((one) => one.key === sort).rises ?? false;
  let starts = [""]; // the name after which every page up to this one begins; or how many come before it
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
  const heads = COLUMNS.map((one) => {
    const button = h("button", { type: "button", class: "sort", onclick: () => choose(one) }, one.name);
    return { ...one, element: h("th", { scope: "col", class: one.kind }, button) };
  });
  const table = h(
    "table",
    { class: "plain tasks" },
    h("caption", { class: "hidden-text" }, "Tasks"),
    h("thead", null, h("tr", null, ...heads.map((one) => one.element))),
    body,
  );
  const none = empty("No tasks yet", "A task comes with its first decision:");
  none.hidden = true;
  const about = h("p", { class: "hint" });
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
    about,
  );
  const element = h("div", { class: "stack" }, none, list);

  function turn(by) {
    if (by > 0 && next !== null) starts.push(next);
    else if (by < 0 && starts.length > 1) starts.pop();
    soon();
  }

  function kept() {
    const rises = COLUMNS.find((one) => one.key === sort).rises ?? false;
    const order = up === rises ? null : up ? "up" : "down";
    amend(href(fleet, "tasks", null, { search, sort: sort === "task" ? null : sort, order }));
  }

  function choose({ key, rises = false }) {
    up = sort === key ? !up : rises;
    sort = key;
    starts = [""];
    kept();
    soon();
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      search = field.value.trim();
      starts = [""];
      kept();
      soon();
    }, PAUSE);
  });

  function make(task) {
    const cells = COLUMNS.slice(1).map((one) => h("td", { class: one.kind }));
    const link = h("a", { href: href(fleet, "tasks", task.task) }, label(task.task));
    return { element: h("tr", null, h("th", { scope: "row" }, link), ...cells), cells };
  }

  function fill(row, task) {
    const away = task.distance === undefined ? "–" : number(task.distance);
    const texts = [
      count(task.decisions),
      count(task.rewards),
      number(task.mean_reward),
      task.arm ?? "–",
      chance(task.probability),
      task.unusual ? `${away} ▲` : away,
    ];
    texts.forEach((text, k) => setText(row.cells[k], text));
    row.cells[3].title = task.arm ?? "";
    row.element.classList.toggle("odd-one", task.unusual === true);
  }

  // By name the service has all tasks, page by page; by anything else those that were looked at are sorted here.
  async function read(insights, signal) {
    const known = new Map(insights.tasks.map((one) => [one.task, one]));
    if (sort === "task" && up) {
      const asked = { search, after: starts.at(-1) };
      const answer = await get(path("fleets", fleet, "tasks"), { signal, params: { ...asked, limit: PAGE } });
      next = answer.next;
      return answer.tasks.map((task) => ({ ...known.get(task.task), ...task }));
    }
    const wanted = search.toLowerCase();
    const all = insights.tasks.filter((task) => task.task.toLowerCase().includes(wanted)).sort(compared(sort));
    if (!up) all.reverse();
    const from = Number(starts.at(-1));
    next = all.length > from + PAGE ? String(from + PAGE) : null;
    return all.slice(from, from + PAGE);
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
      const insights = await loadInsights(fleet, signal);
      const rows = await read(insights, signal);
      for (const one of heads) {
        one.element.setAttribute("aria-sort", one.key === sort ? (up ? "ascending" : "descending") : "none");
      }
      keyed(body, rows, (task) => task.task, make, fill);
      const some = insights.tasks.length < latest().tasks;
      const which = ` Sorted by anything but the name: ${plural(insights.tasks.length, "task")} that were looked at.`;
      setText(about, some ? `${ABOUT}${which}` : ABOUT);
      const page = starts.length;
      const only = page === 1 && next === null;
      previous.disabled = page === 1;
      following.disabled = next === null;
      setHidden(previous, only);
      setHidden(following, only);
      if (rows.length > 0) setText(found, only ? plural(rows.length, "task") : `Page ${page}`);
      else if (insights.state === "making" && !search) setText(found, "Reading the log …");
      else setText(found, search && page === 1 ? `No task has “${search}” in its name.` : "No more tasks.");
      return insights.state === "making" ? 1 : undefined;
    },
    stop() {
      clearTimeout(timer);
    },
  };
}
