// One task: the posterior of every arm, how much of it is borrowed, and what happened.

import { mayAdminister } from "./access.js";
import { get, path, send } from "./api.js";
import { confirmed } from "./dialog.js";
import { empty, h, keyed, label, onChange, setHidden, setText, svg } from "./dom.js";
import { CONFIDENCE, Z, between, fullDay, number, percent, plural, rate, scale, sentence, timeOf } from "./format.js";
import { history } from "./history.js";
import { domainOf, intervals, legend } from "./intervals.js";
import { href } from "./route.js";
import { columnWords } from "./words.js";

function rowsOf(columns, arm) {
  return columns.map((name, k) => {
    const [mean, sd] = [arm.mean[k], arm.sd[k]];
    const half = Z * sd;
    const ends = { low: mean - half, high: mean + half };
    return { name: columnWords(name), label: true, value: mean, ...ends, mark: arm.population_mean[k] };
  });
}

function shareBar() {
  const part = svg("rect", { class: "own", x: 0, y: 0, height: 10 });
  const whole = svg("rect", { class: "lent", x: 0, y: 0, width: "100%", height: 10 });
  const bar = svg("svg", { class: "share", width: "100%", height: 10, "aria-hidden": "true" }, whole, part);
  const text = h("p", { class: "share-text" });
  return {
    element: h("div", { class: "share-box" }, bar, text),
    draw: onChange((share, worth, rewards) => {
      part.setAttribute("width", `${(share * 100).toFixed(2)}%`);
      const own = rewards ? `${plural(rewards, "reward")} of its own` : "No rewards of its own yet";
      const others = worth === null ? "" : `; the other tasks say as much as ${number(worth)} would`;
      text.textContent = `${percent(share)} own, ${percent(1 - share)} borrowed. ${own}${others}.`;
    }),
  };
}

function armCard(arm) {
  const retired = h("span", { class: "chip" }, "retired");
  const share = shareBar();
  const expected = h("p", { class: "rate", hidden: true });
  const graph = intervals({
    caption: `What is believed about ${arm.arm}, one row per feature`,
    head: "Feature",
    unit: "reward per unit",
    columns: [
      [
        `Mean (${CONFIDENCE} interval)`,
        (row) => `${number(row.value)} (${between(row.low, row.high)})`,
        "long",
        (row) => `, all tasks ${number(row.mark)}`,
      ],
    ],
  });
  const element = h(
    "li",
    { class: "card" },
    h("h3", { class: "named" }, label(arm.arm), retired),
    expected,
    share.element,
    h("div", { class: "scroll-y tall" }, graph.element),
  );
  return { element, retired, share, expected, graph };
}

export function taskPanel({ fleet, route }) {
  const task = route.item;
  const facts = h("p", { class: "hint" });
  const features = h("p", { class: "hint task-features", hidden: true });
  const arms = h("ul", { class: "cards wide" });
  const past = history(fleet, task);
  const missing = empty("There is no such task", "");
  missing.hidden = true;
  const known = h(
    "div",
    { class: "stack", hidden: true },
    h(
      "section",
      { class: "posterior", "aria-label": "Beliefs" },
      h("h3", { class: "part" }, "What it believes about each arm"),
      legend([
        ["dot", "mean"],
        ["inner", `${CONFIDENCE} interval`],
        ["mark", "mean of all tasks"],
      ]),
      arms,
    ),
    past.element,
  );
  const erase = h("button", { type: "button", class: "danger", hidden: true, onclick: eraseTask }, "Erase this task");
  const element = h(
    "div",
    { class: "stack" },
    h(
      "div",
      null,
      h("a", { class: "back", href: href(fleet, "tasks") }, "All tasks"),
      h("h2", { tabindex: "-1", "data-heading": true, class: "task-name" }, label(task)),
      facts,
      features,
    ),
    missing,
    known,
    h("div", null, erase),
  );

  async function eraseTask() {
    await confirmed({
      title: `Erase ${task}?`,
      lines: [
        "Its decisions and rewards leave the log, snapshots and all that was learned from them. This cannot be undone.",
        "The task starts afresh with its next decision.",
      ],
      action: "Erase it",
      work: () => send("DELETE", path("fleets", fleet, "tasks", task), undefined, { timeout: 60_000 }),
    });
    location.hash = href(fleet, "tasks");
  }

  function draw(found) {
    const counts = `${plural(found.decisions, "decision")}, ${plural(found.rewards, "reward")}`;
    setText(facts, `${counts}, first seen ${fullDay(timeOf(found.first_time))}`);
    const about = Object.entries(found.features ?? {}).filter(([, value]) => value !== null);
    setHidden(features, !about.length);
    setText(features, `Known about it: ${about.map(([name, value]) => `${name} ${value}`).join(", ")}`);
    const rows = found.arms.map((arm) => rowsOf(found.columns, arm));
    const domain = domainOf(rows.flat(), [0]);
    keyed(arms, found.arms, (arm) => arm.arm, armCard, (card, arm) => {
      setHidden(card.retired, !arm.retired);
      card.share.draw(arm.own_share, arm.borrowed, arm.rewards);
      setHidden(card.expected, !arm.rate);
      if (arm.rate) setText(card.expected, `Expected: ${rate(found.reward_family, arm.rate)}`);
      card.graph.draw(rows[found.arms.indexOf(arm)], domain, scale(found.reward_family));
    });
  }

  return {
    element,
    seconds: 5,
    accepts: (next) => next.item === task,
    show() {},
    async load(signal) {
      try {
        const [found] = await Promise.all([get(path("fleets", fleet, "tasks", task), { signal }), past.load(signal)]);
        draw(found);
        setHidden(erase, !(await mayAdminister(signal)));
        setHidden(known, false);
        setHidden(missing, true);
      } catch (error) {
        if (!error.isMissing) throw error;
        setHidden(known, true);
        setHidden(missing, false);
        setText(missing.lastElementChild, sentence(error.message));
      }
    },
    stop: past.stop,
  };
}
