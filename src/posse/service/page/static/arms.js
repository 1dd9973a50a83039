// Every arm's population: what a new task may expect, and how tasks differ.

import { get, path } from "./api.js";
import { empty, h, headRow, keyed, label, setHidden, setLabel, setText } from "./dom.js";
import { count, number, plural, rate, scale, sentence } from "./format.js";
import { heatmap } from "./heatmap.js";
import { intervals, legend } from "./intervals.js";
import { href } from "./route.js";

const Z = 1.96;
const HEADS = [
  ["Tasks", "text"],
  ["Rewards", "text"],
  ["Noise sd", "text wide-only"],
];

function correlation(covariance) {
  const sd = covariance.map((row, k) => Math.sqrt(row[k]));
  return covariance.map((row, i) => row.map((value, j) => (sd[i] > 0 && sd[j] > 0 ? value / (sd[i] * sd[j]) : 0)));
}

function meanRows(columns, arm) {
  return columns.map((name, k) => {
    const [mean, sd, spread] = [arm.mean[k], arm.mean_sd[k], Math.sqrt(arm.covariance[k][k])];
    return {
      name,
      label: true,
      value: mean,
      sd,
      spread,
      low: mean - Z * sd,
      high: mean + Z * sd,
      outerLow: mean - Z * spread,
      outerHigh: mean + Z * spread,
    };
  });
}

function about(title, text) {
  return [h("h3", null, title), h("p", { class: "hint" }, text)];
}

export function armsPanel({ fleet, route }) {
  let wanted = route.item;
  let population = null;
  const body = h("tbody");
  const table = h(
    "table",
    { class: "plain choose" },
    headRow([["Arm"], ...HEADS]),
    body,
  );
  const title = h("h2", { tabindex: "-1" }, "");
  const name = h("bdi", { class: "label" });
  title.append(name);
  const facts = h("p", { class: "hint" });
  const means = intervals({
    caption: "Mean of the population, one row per column",
    head: "Column",
    unit: "reward per unit",
    columns: [
      ["Mean ± sd", (row) => `${number(row.value)} ± ${number(row.sd)}`],
      ["Tasks’ sd", (row) => number(row.spread), "short wide-only"],
    ],
  });
  const heat = heatmap("How tasks differ");
  const kinds = ["Covariance", "Correlation"].map((name) => h("option", { value: name.toLowerCase() }, name));
  const kind = h("select", { id: "heat-kind" }, ...kinds);
  kind.addEventListener("change", draw);
  const none = empty("Nothing learned yet", "What is shown is the prior. It changes when the first rewards have come.");
  none.hidden = true;
  const detail = h(
    "div",
    { class: "card", hidden: true },
    title,
    facts,
    h(
      "div",
      { class: "two" },
      h(
        "figure",
        { class: "chart" },
        h("figcaption", null, ...about("Population mean", "What a task without rewards is believed to be.")),
        legend([
          ["dot", "mean"],
          ["inner", "where the mean is (95%)"],
          ["outer", "where tasks are (95%)"],
        ]),
        h("div", { class: "scroll-y tall" }, means.element),
      ),
      h(
        "figure",
        { class: "chart" },
        h(
          "figcaption",
          { class: "card-head" },
          h("div", null, ...about("How tasks differ", "Spread of the tasks around the mean.")),
          h("div", null, h("label", { class: "hidden-text", for: "heat-kind" }, "Shown as"), kind),
        ),
        heat.element,
      ),
    ),
  );
  const findings = h("ul", { class: "findings" });
  const unusual = h("div", { class: "card", hidden: true }, h("h2", null, "What looks unusual"), findings);
  const element = h("div", { class: "stack" }, none, unusual, h("div", { class: "card" }, table), detail);

  function make(arm) {
    const link = h("a", { href: href(fleet, "arms", arm.arm) }, label(arm.arm));
    const retired = h("span", { class: "chip" }, "retired");
    const cells = HEADS.map(([, kind]) => h("td", { class: kind }));
    const head = h("th", { scope: "row" }, h("div", { class: "named" }, link, retired));
    return { element: h("tr", null, head, ...cells), link, retired, cells };
  }

  function draw() {
    if (!population) return;
    const { arms, columns } = population;
    const learned = arms.reduce((sum, each) => sum + each.rewards, 0);
    const arm = arms.find((candidate) => candidate.arm === wanted) ?? arms[0];
    keyed(body, arms, (each) => each.arm, make, (row, each) => {
      [count(each.tasks), count(each.rewards), number(each.noise_sd)].forEach((text, k) => setText(row.cells[k], text));
      setHidden(row.retired, !each.retired);
      row.element.classList.toggle("chosen", each === arm);
      if (each === arm) row.link.setAttribute("aria-current", "true");
      else row.link.removeAttribute("aria-current");
    });
    keyed(findings, population.findings, String, (text) => ({ element: h("li", null, h("bdi", null, `${sentence(text)}.`)) }));
    setHidden(unusual, !population.findings.length || learned === 0);
    setHidden(detail, !arm);
    if (!arm) return;
    setLabel(name, arm.arm);
    const { policy, prior, refreshed_rewards: estimatedFrom } = population;
    const stands = `${plural(arm.rewards, "reward")} from ${plural(arm.tasks, "task")}`;
    const estimate = `Population of ${policy}, ${prior} prior, estimated after ${plural(estimatedFrom, "reward")}`;
    const { reward_family: family } = population;
    const expected = arm.rate ? ` A new task: ${rate(family, arm.rate)}.` : "";
    setText(facts, `${stands}, noise sd ${number(arm.noise_sd)}. ${estimate}.${expected}`);
    means.draw(meanRows(columns, arm), undefined, scale(family));
    const shown = kind.value === "correlation" ? correlation(arm.covariance) : arm.covariance;
    heat.draw(columns, shown, kind.value);
  }

  return {
    element,
    seconds: 5,
    accepts: () => true,
    show(next) {
      wanted = next.item;
      draw();
    },
    update(now) {
      setHidden(none, now.rewards > 0);
    },
    async load(signal) {
      population = await get(path("fleets", fleet, "population"), { signal });
      draw();
    },
  };
}
