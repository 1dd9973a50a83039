// Is it worth it? What the policy earned, and what a baseline would have, from the log.

import { get, path } from "./api.js";
import { empty, h, keyed, setHidden, setText } from "./dom.js";
import { CONFIDENCE, NONE, count, number, percent, sentence } from "./format.js";
import { domainOf, intervals, legend } from "./intervals.js";
import { amend, href } from "./route.js";

const ABOUT = "What it earned per decision, and what a baseline would have earned in its place.";
const PATIENCE = 120_000; // milliseconds; a long log takes its time

function baselineName(name) {
  return name.startsWith("arm:") ? `Always ${name.slice(4)}` : "Every arm alike";
}

function interval({ low, high }) {
  return low === null || high === null ? NONE : `${number(low)} to ${number(high)}`;
}

function rowOf(name, found) {
  return { name, value: found.value, low: found.low, high: found.high };
}

function verdict({ difference, baseline, confidence }) {
  if (!difference) return "The log has no difference to tell.";
  const arm = baseline.name.startsWith("arm:") ? baseline.name.slice(4) : null;
  const than = arm === null ? "choosing every arm alike" : `always choosing ${arm}`;
  const size = number(Math.abs(difference.value));
  const sure = `${percent(confidence)} interval: ${interval(difference)}`;
  const found = `difference is ${number(difference.value)} per decision`;
  if (difference.low === null || difference.high === null) {
    return `Compared with ${than}, the ${found}; the log has too little for an interval.`;
  }
  if (difference.low > 0) return `The policy earns ${size} more per decision than ${than} (${sure}).`;
  if (difference.high < 0) return `The policy earns ${size} less per decision than ${than} (${sure}).`;
  return `The log cannot tell the policy from ${than} yet: the ${found} (${sure}).`;
}

export function valuePanel({ fleet, route, latest, soon }) {
  let baseline = route.query.baseline ?? "uniform";
  let answered = null; // what the answer that is shown was for
  const select = h("select", { id: "baseline" });
  const text = h("p", { class: "verdict", role: "status" });
  const basis = h("p", { class: "hint" });
  const columns = [
    ["Value", (row) => number(row.value), "short"],
    [`${CONFIDENCE} interval`, (row) => interval(row), "long wide-only"],
  ];
  const values = intervals({ caption: "Reward per decision", head: "", unit: "reward per decision", columns });
  const gap = intervals({ caption: "Difference", head: "", unit: "difference per decision", columns });
  const refusal = empty("The log cannot say", "");
  refusal.hidden = true;
  const none = empty("No rewards yet", "The value is estimated from decisions and their rewards.");
  none.hidden = true;
  const result = h(
    "div",
    { class: "stack", hidden: true },
    legend([
      ["dot", "estimate"],
      ["inner", `${CONFIDENCE} interval`],
    ]),
    values.element,
    gap.element,
  );
  const card = h(
    "div",
    { class: "card stack value-card", hidden: true },
    h("div", null, h("h2", null, "Compare with any arm"), h("p", { class: "hint" }, ABOUT)),
    h("div", { class: "field" }, h("label", { for: "baseline" }, "Compare with"), select),
    text,
    refusal,
    result,
    basis,
  );
  const element = h("div", { class: "stack" }, none, card);

  select.addEventListener("change", () => {
    baseline = select.value;
    amend(href(fleet, "value", null, { baseline: baseline === "uniform" ? null : baseline }));
    soon();
  });

  function offer(now) {
    const names = ["uniform", ...[...now.arms, ...now.retired_arms].map((arm) => `arm:${arm}`)];
    if (!names.includes(baseline)) baseline = "uniform";
    keyed(select, names, (name) => name, (name) => ({ element: h("option", { value: name }, baselineName(name)) }));
    if (select.value !== baseline) select.value = baseline;
  }

  function draw(found) {
    setText(refusal.lastElementChild, sentence(found.refusal ?? ""));
    setHidden(refusal, !found.refusal);
    setText(basis, `From the newest ${count(found.rows)} decisions, ${count(found.rewards)} of them with a reward.`);
    setText(text, found.refusal ? "" : verdict(found));
    setHidden(text, Boolean(found.refusal));
    // What the policy earned is in the log, whatever it cannot say about the baseline.
    const rows = [];
    if (found.policy) rows.push(rowOf("This policy", found.policy));
    if (found.baseline && !found.refusal) rows.push(rowOf(baselineName(found.baseline.name), found.baseline));
    setHidden(result, rows.length === 0);
    if (rows.length) values.draw(rows, domainOf(rows));
    const difference = found.difference && !found.refusal ? [rowOf("Difference", found.difference)] : [];
    setHidden(gap.element, difference.length === 0);
    if (difference.length) gap.draw(difference, domainOf(difference, [0]));
  }

  return {
    element,
    seconds: 5,
    accepts: () => true,
    show(next) {
      baseline = next.query.baseline ?? "uniform";
      offer(latest());
    },
    update(now) {
      offer(now);
      setHidden(none, now.rewards > 0);
      setHidden(card, now.rewards === 0);
    },
    async load(signal) {
      const { rewards } = latest();
      // It is costly: the same baseline is asked again only when rewards came, and then not all the time.
      const same = answered?.baseline === baseline;
      if (!rewards || (same && (answered.rewards === rewards || Date.now() - answered.at < 30_000))) return;
      if (!same) {
        setText(text, "Reading the log …");
        setHidden(text, false);
      }
      card.setAttribute("aria-busy", String(!same));
      try {
        draw(await get(path("fleets", fleet, "value"), { signal, params: { baseline }, timeout: PATIENCE }));
        answered = { baseline, rewards, at: Date.now() };
      } finally {
        if (!signal.aborted) card.setAttribute("aria-busy", "false");
      }
    },
  };
}
