// One fleet: its counts, and the tabs with what it has learned.

import { get, path } from "./api.js";
import { armsPanel } from "./arms.js";
import { empty, h, label, setHidden, setText } from "./dom.js";
import { count, plural, sentence } from "./format.js";
import { loop } from "./live.js";
import { logPanel } from "./log.js";
import { overviewPanel } from "./overview.js";
import { pendingPanel } from "./pending.js";
import { reportPanel } from "./report.js";
import { tabs } from "./tabs.js";
import { taskPanel } from "./task.js";
import { tasksPanel } from "./tasks.js";
import { showTrouble, trouble } from "./trouble.js";
import { tryPanel } from "./try.js";
import { valuePanel } from "./value.js";
import { policyWords } from "./words.js";

const NAMES = {
  overview: "Overview",
  report: "Report",
  arms: "Arms",
  tasks: "Tasks",
  try: "Try it",
  value: "Value",
  pending: "Pending",
  log: "Log",
};
const COUNTS = [
  ["tasks", "Tasks"],
  ["decisions", "Decisions"],
  ["rewards", "Rewards"],
  ["pending", "Pending rewards"],
];
const PANEL = "panel";
const PANELS = {
  overview: overviewPanel,
  arms: armsPanel,
  tasks: tasksPanel,
  try: tryPanel,
  report: reportPanel,
  pending: pendingPanel,
  value: valuePanel,
  log: logPanel,
};

function panelOf(route) {
  if (route.tab === "tasks" && route.item) return taskPanel;
  return PANELS[route.tab];
}

export function fleetView(report, route) {
  const name = route.fleet;
  const numbers = Object.fromEntries(COUNTS.map(([key]) => [key, h("dd", { "data-count": key }, "–")]));
  const about = h("p", { class: "hint" });
  const wrong = trouble();
  const panel = h("section", { id: PANEL, role: "tabpanel" });
  const bar = tabs(name, NAMES, PANEL);
  const tiles = COUNTS.map(([key, text]) => h("div", { class: "tile" }, h("dt", null, text), numbers[key]));
  const known = h("div", null, h("dl", { class: "tiles" }, ...tiles), bar.element, panel);
  const missing = empty("There is no such fleet", "");
  missing.hidden = true;
  const element = h(
    "div",
    { class: "view" },
    h(
      "nav",
      { class: "crumbs", "aria-label": "Where you are" },
      h("a", { href: "#/" }, "Fleets"),
      h("span", { "aria-hidden": "true" }, "/"),
      h("span", { "aria-current": "page" }, label(name)),
    ),
    h("header", { class: "fleet-head" }, h("h1", { tabindex: "-1", "data-heading": true }, label(name)), about, wrong),
    known,
    missing,
  );

  let fleet = null;
  let part = null; // the panel that is shown, and its loop
  let here = route;
  let running = false;

  function close() {
    part?.fresh.stop();
    part?.stop?.();
    part = null;
  }

  function show(next) {
    here = next;
    bar.choose(next.tab);
    panel.setAttribute("aria-labelledby", `tab-${next.tab}`);
    if (!fleet) return;
    const make = panelOf(next);
    if (part?.make === make && part.accepts(next)) {
      part.show(next);
      part.fresh.soon();
      return;
    }
    close();
    const made = make({ fleet: name, route: next, latest: () => fleet, soon: () => part?.fresh.soon() });
    part = { ...made, make, fresh: loop(made.load, made.seconds, (error) => report("panel", error)) };
    panel.replaceChildren(made.element);
    made.update?.(fleet);
    if (running) part.fresh.start();
  }

  function gone(message) {
    close();
    fleet = null;
    setHidden(known, true);
    setHidden(missing, false);
    setText(missing.lastElementChild, sentence(message));
    setText(about, "");
    setHidden(wrong, true);
  }

  function update(next) {
    const first = !fleet;
    fleet = next;
    setHidden(known, false);
    setHidden(missing, true);
    for (const [key] of COUNTS) setText(numbers[key], count(fleet[key]));
    const size = `${plural(fleet.arms.length, "arm")}, ${plural(fleet.definition.features.length, "feature")}`;
    setText(about, `${size}; ${policyWords(fleet.definition.policy)}`);
    showTrouble(wrong, fleet);
    if (first) show(here);
    else part?.update?.(fleet);
  }

  const fresh = loop(
    async (signal) => {
      try {
        update(await get(path("fleets", name), { signal }));
      } catch (error) {
        if (!error.isMissing) throw error;
        gone(error.message);
        return 5; // it may come, so it is looked for again
      }
      return 1;
    },
    1,
    (error) => report("fleet", error),
  );

  bar.choose(route.tab);
  return {
    element,
    title: name,
    accepts: (next) => next.fleet === name,
    show,
    start() {
      running = true;
      fresh.start();
    },
    stop() {
      running = false;
      fresh.stop();
      close();
    },
  };
}
