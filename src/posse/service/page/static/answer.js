// Is it worth it? The uplift of the logged policy, per decision and so far, and how sure that is.

import { h, keyed, label, setHidden, setText } from "./dom.js";
import { CONFIDENCE, between, chance, count, moment, number, percent, sentence, timeOf } from "./format.js";
import { domainOf, intervals, legend } from "./intervals.js";

const OVER = {
  random: () => "choosing at random",
  "one-arm": (name) => `always ${name}`,
};

const LEVEL = "95%"; // of intervals from the log

function words({ over, name }) {
  return OVER[over](name);
}

// The one sentence that the page begins with.
export function headline({ gain }) {
  const { value, low, high } = gain;
  const size = number(Math.abs(value));
  if (low === null) {
    const than = `${size} ${value < 0 ? "less" : "more"} per decision than choosing at random`;
    return ["Not yet clear:", ` deciding seems to earn ${than}, but these are too few tasks to be sure.`];
  }
  if (low > 0) return [`Deciding earns ${size} more per decision`, " than choosing at random."];
  if (high < 0) return [`Deciding earns ${size} less per decision`, " than choosing at random."];
  const found = `${number(value)} per decision`;
  return ["Not yet clear:", ` so far, deciding cannot be told from choosing at random (${found}).`];
}

function tile(name) {
  const value = h("dd");
  const range = h("dd", { class: "hint" });
  return { element: h("div", { class: "tile" }, h("dt", null, name), value, range), value, range };
}

function show(part, value, range) {
  setText(part.value, value);
  setText(part.range, range);
}

export function answerCard() {
  const strong = h("strong");
  const rest = h("span");
  const verdict = h("p", { class: "verdict answer", role: "status" }, strong, rest);
  const gained = tile("Gained per decision");
  const total = tile("Gained so far");
  const sure = tile("How sure");
  const earned = tile("Earned per decision");
  const tiles = h("dl", { class: "tiles" }, ...[gained, total, sure, earned].map((part) => part.element));
  const graph = intervals({
    caption: "Gained per decision over other ways to decide",
    head: "Compared with",
    unit: "gained per decision",
    columns: [
      ["Gain", (row) => number(row.value), "short"],
      [`${LEVEL} interval`, (row) => between(row.low, row.high), "long wide-only"],
    ],
  });
  const key = legend([
    ["dot", "estimate"],
    ["inner", `${LEVEL} interval`],
  ]);
  const refused = h("ul", { class: "findings" });
  const basis = h("p", { class: "hint" });
  const element = h(
    "section",
    { class: "card stack", "aria-labelledby": "answer-title", hidden: true },
    h("h2", { id: "answer-title" }, "Is it worth it?"),
    verdict,
    tiles,
    h("div", { class: "chart answer-chart" }, key, graph.element),
    refused,
    basis,
  );

  function unknown(text) {
    setText(strong, "");
    setText(rest, text);
    for (const part of [tiles, graph.element.parentElement, refused, basis]) setHidden(part, true);
  }

  function draw(found) {
    setHidden(element, found.state === "empty" && !found.decisions);
    element.setAttribute("aria-busy", String(found.state === "making"));
    if (found.state === "making") return unknown("Reading the log …");
    if (found.state === "failed") return unknown(`The log cannot say. ${sentence(found.problem ?? "")}`);
    if (found.state === "empty") return unknown(`Too early to tell. ${sentence(found.problem ?? "")}.`);
    const [first] = found.gains;
    const known = found.gains.filter((one) => one.gain);
    const refusal = ["The log cannot say", " whether deciding earns more than choosing at random."];
    const told = first?.gain ? headline(first) : refusal;
    setText(strong, told[0]);
    setText(rest, told[1]);
    setHidden(tiles, !first?.gain);
    if (first?.gain) {
      const { value, low, high } = first.gain;
      const base = found.earned ? found.earned.value - value : 0;
      const part = base > 0 ? `; ${percent(Math.abs(value / base))} ${value < 0 ? "less" : "more"}` : "";
      show(gained, number(value), low === null ? "too few tasks for an interval" : `${between(low, high)}${part}`);
      const sum = [value, low, high].map((each) => (each === null ? null : each * found.decisions));
      const ends = sum[1] === null ? "" : `${between(sum[1], sum[2])}; `;
      show(total, `about ${number(sum[0])}`, `${ends}${count(found.decisions)} decisions`);
      const positive = first.probability;
      const more = positive === null || positive >= 0.5;
      const which = positive === null ? "too few tasks to say" : `that deciding earns ${more ? "more" : "less"}`;
      show(sure, positive === null ? "–" : chance(Math.max(positive, 1 - positive)), which);
      show(earned, number(found.earned?.value), between(found.earned?.low ?? null, found.earned?.high ?? null));
    }
    const rows = known.map((one) => ({ name: words(one), ...one.gain }));
    setHidden(graph.element.parentElement, rows.length === 0);
    if (rows.length) graph.draw(rows, domainOf(rows, [0]));
    const refusals = found.gains.filter((one) => !one.gain);
    keyed(refused, refusals, (one) => one.over, (one) => {
      const reasons = one.refusals.length ? one.refusals : ["there is too little to compare"];
      const texts = reasons.map((text) => ` ${sentence(text)}.`);
      return { element: h("li", null, "Over ", label(words(one)), ": the log cannot tell.", ...texts) };
    });
    setHidden(refused, refusals.length === 0);
    const sampled = `${found.rows < found.decisions ? "an even sample of" : "all"} ${count(found.rows)}`;
    setText(
      basis,
      `Estimated from ${sampled} decisions of the log, of which ${count(found.rewards)} have a reward, as of ` +
        `${moment(timeOf(found.made), false)}. Here are ${LEVEL} intervals, elsewhere on this page ${CONFIDENCE} intervals.`,
    );
    setHidden(basis, false);
    return undefined;
  }

  return { element, draw };
}
