// Every arm's population: what a new task may expect, and how tasks differ.

import { mayAdminister } from "./access.js";
import { get, path, send } from "./api.js";
import { confirmed } from "./dialog.js";
import { empty, h, headRow, keyed, label, setHidden, setLabel, setText } from "./dom.js";
import { CONFIDENCE, Z, between, count, number, plural, rate, scale, sentence } from "./format.js";
import { heatmap } from "./heatmap.js";
import { intervals, legend } from "./intervals.js";
import { href } from "./route.js";
import { columnWords } from "./words.js";

const HEADS = [
  ["Tasks", "text"],
  ["Rewards", "text"],
  ["Spread of a reward", "text wide-only"],
];

function correlation(covariance) {
  const sd = covariance.map((row, k) => Math.sqrt(row[k]));
  return covariance.map((row, i) => row.map((value, j) => (sd[i] > 0 && sd[j] > 0 ? value / (sd[i] * sd[j]) : 0)));
}

function meanRows(columns, arm) {
  return columns.map((name, k) => {
    const [mean, sd, spread] = [arm.mean[k], arm.mean_sd[k], Math.sqrt(arm.covariance[k][k])];
    return {
      name: columnWords(name),
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

export function armsPanel({ fleet, route, soon }) {
  let wanted = route.item;
  let population = null;
  let administers = false;
  const body = h("tbody");
  const table = h(
    "table",
    { class: "plain choose" },
    headRow([["Arm"], ...HEADS, ["", "text"]]),
    body,
  );
  const title = h("h2", { tabindex: "-1" }, "");
  const name = h("bdi", { class: "label" });
  title.append(name);
  const facts = h("p", { class: "hint" });
  const means = intervals({
    caption: "What tasks have in common, one row per feature",
    head: "Feature",
    unit: "reward per unit",
    columns: [
      ["Mean", (row) => number(row.value), "short"],
      [`${CONFIDENCE} interval`, (row) => between(row.low, row.high), "wide-only"],
      ["Spread", (row) => number(row.spread), "short wide-only"],
    ],
  });
  const heat = heatmap("How tasks differ");
  const kinds = ["Covariance", "Correlation"].map((name) => h("option", { value: name.toLowerCase() }, name));
  const kind = h("select", { id: "heat-kind" }, ...kinds);
  kind.addEventListener("change", draw);
  const none = empty("Nothing learned yet", "What is shown is believed before the first reward, and changes with it.");
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
        h(
          "figcaption",
          null,
          ...about(
            "What tasks have in common",
            "How much each feature adds to the reward, in a task without rewards of its own.",
          ),
        ),
        legend([
          ["dot", "mean"],
          ["inner", `where the mean is (${CONFIDENCE})`],
          ["outer", `where ${CONFIDENCE} of tasks are`],
        ]),
        h("div", { class: "scroll-y tall" }, means.element),
      ),
      h(
        "figure",
        { class: "chart" },
        h(
          "figcaption",
          { class: "card-head" },
          h("div", null, ...about("How tasks differ", "How far tasks are from that mean, and what goes together.")),
          h("div", null, h("label", { class: "hidden-text", for: "heat-kind" }, "Shown as"), kind),
        ),
        heat.element,
      ),
    ),
  );
  const findings = h("ul", { class: "findings" });
  const unusual = h("div", { class: "card", hidden: true }, h("h2", null, "What looks unusual"), findings);
  const effects = h("ul", { class: "findings effects" });
  const known = h(
    "div",
    { class: "card", hidden: true },
    h("h2", null, "What features of tasks and arms say"),
    h("p", { class: "hint" }, "How far apart coefficients are because of each: 0 says nothing, or nothing yet."),
    effects,
  );
  const field = h("input", { id: "new-arm", required: true, maxlength: "1000", autocomplete: "off" });
  const adding = h(
    "form",
    { class: "add-arm", hidden: true },
    h("div", { class: "field" }, h("label", { for: "new-arm" }, "Add an arm"), field),
    h("button", { type: "submit" }, "Add"),
  );
  const element = h("div", { class: "stack" }, none, unusual, h("div", { class: "card" }, table, adding), known, detail);

  adding.addEventListener("submit", async (event) => {
    event.preventDefault();
    await add(field.value.trim());
    field.value = "";
  });

  async function add(arm) {
    await confirmed({
      title: `Add the arm ${arm}?`,
      lines: ["From the next decision on it is tried in every task. It can be retired, but not removed."],
      action: "Add it",
      work: () => send("POST", path("fleets", fleet, "arms"), { arm }),
    });
    soon();
  }

  async function retire(arm) {
    await confirmed({
      title: `Retire the arm ${arm}?`,
      lines: ["It is chosen no more, anywhere. What it earned is kept, and it can be brought back."],
      action: "Retire it",
      work: () => send("DELETE", path("fleets", fleet, "arms", arm)),
    });
    soon();
  }

  function make(arm) {
    const link = h("a", { href: href(fleet, "arms", arm.arm) }, label(arm.arm));
    const retired = h("span", { class: "chip" }, "retired");
    const cells = HEADS.map(([, kind]) => h("td", { class: kind }));
    const change = h("button", { type: "button", class: "quiet small" });
    change.addEventListener("click", () => (change.dataset.retired === "true" ? add(arm.arm) : retire(arm.arm)));
    const head = h("th", { scope: "row" }, h("div", { class: "named" }, link, retired));
    return { element: h("tr", null, head, ...cells, h("td", { class: "text" }, change)), link, retired, cells, change };
  }

  function draw() {
    if (!population) return;
    const { arms, columns } = population;
    const learned = arms.reduce((sum, each) => sum + each.rewards, 0);
    const arm = arms.find((candidate) => candidate.arm === wanted) ?? arms[0];
    keyed(body, arms, (each) => each.arm, make, (row, each) => {
      [count(each.tasks), count(each.rewards), number(each.noise_sd)].forEach((text, k) => setText(row.cells[k], text));
      setHidden(row.retired, !each.retired);
      setHidden(row.change, !administers);
      row.change.dataset.retired = String(each.retired);
      setText(row.change, each.retired ? "Bring back" : "Retire");
      row.change.setAttribute("aria-label", `${each.retired ? "Bring back" : "Retire"} ${each.arm}`);
      row.element.classList.toggle("chosen", each === arm);
      if (each === arm) row.link.setAttribute("aria-current", "true");
      else row.link.removeAttribute("aria-current");
    });
    keyed(findings, population.findings, String, (text) => ({ element: h("li", null, h("bdi", null, `${sentence(text)}.`)) }));
    setHidden(unusual, !population.findings.length || learned === 0);
    const said = ["task", "arm"].flatMap((side) =>
      Object.entries(population.effects[side]).map(([feature, sd]) => ({ key: `${side} ${feature}`, text: `${feature} (of ${side}s): ${number(sd)}` })),
    );
    keyed(effects, said, (one) => one.key, () => ({ element: h("li") }), (row, one) => setText(row.element, one.text));
    setHidden(known, !said.length);
    setHidden(detail, !arm);
    if (!arm) return;
    setLabel(name, arm.arm);
    const { refreshed_rewards: estimatedFrom } = population;
    const stands = `${plural(arm.rewards, "reward")} from ${plural(arm.tasks, "task")}`;
    const { reward_family: family } = population;
    const noise = `A single reward is typically ${number(arm.noise_sd)} away from what is expected`;
    const expected = arm.rate ? ` In a new task: ${rate(family, arm.rate)}.` : ` ${noise}.`;
    const estimate = `What tasks have in common was last estimated after ${plural(estimatedFrom, "reward")}`;
    setText(facts, `${stands}.${expected} ${estimate}.`);
    means.draw(meanRows(columns, arm), undefined, scale(family));
    const shown = kind.value === "correlation" ? correlation(arm.covariance) : arm.covariance;
    heat.draw(columns.map(columnWords), shown, kind.value);
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
      const asked = [get(path("fleets", fleet, "population"), { signal }), mayAdminister(signal)];
      [population, administers] = await Promise.all(asked);
      setHidden(adding, !administers);
      draw();
    },
  };
}
