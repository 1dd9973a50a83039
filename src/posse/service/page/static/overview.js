// What it is worth, how it went, which arm is best where, what looks wrong; then activity and how it was set up.

import { answerCard } from "./answer.js";
import { get, path, serverNow } from "./api.js";
import { curvesCard } from "./curves.js";
import { code, empty, h, onChange, setHidden } from "./dom.js";
import { age, moment, number, timeOf } from "./format.js";
import { loadInsights } from "./insights.js";
import { notableCard } from "./notable.js";
import { amend, href } from "./route.js";
import { segmentsCard } from "./segments.js";
import { sharesCard } from "./shares.js";
import { timeline } from "./timeline.js";
import { featureWords, policyWords, priorWords } from "./words.js";

const RANGES = { hour: 60, day: 1440, week: 10080, "4 weeks": 40320 };

function choice(chosen, changed) {
  const options = Object.keys(RANGES).map((range) => {
    const input = h("input", { type: "radio", name: "range", value: range, checked: range === chosen });
    return h("label", null, input, h("span", null, h("span", { class: "wide-only" }, "Last "), range));
  });
  const element = h("fieldset", { class: "segments" }, h("legend", { class: "hidden-text" }, "Time shown"), ...options);
  element.addEventListener("change", (event) => changed(event.target.value));
  return element;
}

const REWARDS = {
  number: "any numbers",
  binary: "0 or 1 (clicks, purchases)",
  count: "counts (0, 1, 2, …)",
  revenue: "revenue (0, or an amount)",
};

const OWN = "as its way to decide says";
const isNone = (value) => value === null || value === undefined;

function halfLife(drift) {
  if (isNone(drift)) return "";
  return drift === "learn" ? "learned (see the findings)" : age(86400 * drift);
}

function settings(fleet) {
  const { definition } = fleet;
  const { absent_reward: absent, count_pending: counted } = definition;
  const until = counted ? "from the decision on, until a reward comes" : "when the wait is over, and not before";
  return [
    ["Arms", fleet.arms.join(", ")],
    ["Retired arms", fleet.retired_arms.join(", ")],
    ["A context has", definition.features.map(featureWords).join("; ")],
    ["Rewards", REWARDS[definition.rewards]],
    ["A level of its own for every arm", definition.intercept ? "yes" : "no"],
    ["How it decides", policyWords(definition.policy)],
    ["What tasks have in common is learned", isNone(definition.prior) ? OWN : priorWords(definition.prior)],
    ["Strength of exploration", isNone(definition.exploration) ? OWN : number(definition.exploration)],
    ["Least probability of an arm", number(definition.floor)],
    ["A log that can be evaluated may cost", `${number(100 * definition.evaluation_budget)}% of what deciding gains`],
    ["Half-life of what was learned", halfLife(definition.drift)],
    ["A decision waits for its reward", isNone(definition.time_to_live) ? "for ever" : age(definition.time_to_live)],
    ["If no reward comes", isNone(absent) ? "nothing is learned" : `it counts as ${number(absent)} ${until}`],
    ["Rows are kept", isNone(definition.retention) ? "for ever" : age(definition.retention)],
    ["Created", moment(timeOf(fleet.created))],
  ].filter(([, text]) => text);
}

export function example(fleet) {
  const value = (feature) => feature.categories?.[0] ?? (feature.kind === "hashed" ? "text" : 1);
  const context = Object.fromEntries(
    fleet.definition.features.map((feature) => [typeof feature === "string" ? feature : feature.name, value(feature)]),
  );
  const body = JSON.stringify({ task: "store-17", context });
  return `curl -X POST ${location.origin}/v1/fleets/${fleet.name}/decisions \\
  -H 'Content-Type: application/json' \\
  -d '${body.replaceAll("'", "'\\''")}'`;
}

export function overviewPanel({ fleet, route, soon }) {
  let range = route.query.range in RANGES ? route.query.range : "hour";
  const chart = timeline();
  const worth = answerCard();
  const curves = curvesCard();
  const segments = segmentsCard();
  const shares = sharesCard();
  const notable = notableCard(fleet);
  const list = h("dl", { class: "settings" });
  const none = empty("No decisions yet", `POST a task and its context to /v1/fleets/${fleet}/decisions:`);
  const quiet = h("p", { class: "hint", hidden: true });
  const charts = h(
    "div",
    { class: "card", hidden: true },
    h("div", { class: "card-head" }, h("h2", null, "Activity"), choice(range, choose)),
    chart.element,
    quiet,
  );
  none.hidden = true;
  const setup = h("div", { class: "card" }, h("h2", null, "Set-up"), list);
  const found = [worth, curves, segments, shares, notable];
  const element = h("div", { class: "stack" }, none, ...found.map((card) => card.element), charts, setup);

  function choose(next) {
    range = next;
    amend(href(fleet, "overview", null, { range: range === "hour" ? null : range }));
    soon();
  }

  const setUp = onChange((rows) => {
    list.replaceChildren(...rows.flatMap(([name, text]) => [h("dt", null, name), h("dd", null, h("bdi", null, text))]));
  });
  const explain = onChange((text) => {
    none.querySelector("pre")?.remove();
    none.append(code(text));
  });

  return {
    element,
    seconds: 5,
    accepts: () => true,
    show(next) {
      const wanted = next.query.range in RANGES ? next.query.range : "hour";
      if (wanted === range) return;
      range = wanted;
      element.querySelector(`input[value="${range}"]`).checked = true;
    },
    update(now) {
      setUp(settings(now));
      explain(example(now));
      setHidden(none, now.decisions > 0);
      setHidden(charts, now.decisions === 0);
    },
    async load(signal) {
      const minutes = RANGES[range];
      const [answer, insights] = await Promise.all([
        get(path("fleets", fleet, "activity"), { signal, params: { minutes } }),
        loadInsights(fleet, signal),
      ]);
      for (const card of found) card.draw(insights);
      const activity = answer.activity.map((entry) => ({ ...entry, time: timeOf(entry.time) }));
      const end = Math.max(serverNow(), ...activity.map((entry) => entry.time));
      chart.draw({ stretch: answer.stretch, activity }, end - minutes * 60_000, end);
      const seen = activity.some((entry) => entry.decisions || entry.rewards);
      setHidden(quiet, seen);
      if (!seen) quiet.textContent = `Nothing happened in the last ${range}; choose a longer time.`;
      return insights.state === "making" ? 1 : undefined;
    },
    stop() {
      chart.stop();
      curves.stop();
    },
  };
}
