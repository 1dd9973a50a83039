// Which arm is best where: for every category of a feature, and every range of a number.

import { h, headRow, keyed, label, setHidden, setText } from "./dom.js";
import { chance, number } from "./format.js";

const HEADS = [
  ["Situation", "wide-name"],
  ["Best arm"],
  ["Earns", "text"],
  ["Ahead by", "text wide-only"],
  ["Is best", "text"],
];

function situation({ value, low, high }) {
  if (low !== null) return `${number(low)} to ${number(high)}`;
  return typeof value === "number" ? number(value) : String(value);
}

export function segmentsCard() {
  const groups = h("div", { class: "segments-list" });
  const element = h(
    "section",
    { class: "card", hidden: true, "aria-labelledby": "segments-title" },
    h("h2", { id: "segments-title" }, "Which arm is best where"),
    h(
      "p",
      { class: "hint" },
      "Averages over the decisions that have this in common, by what is believed now: what the best arm is expected to " +
        "earn per decision, how much more that is than of the next best arm, and the probability that it is the best one.",
    ),
    groups,
  );

  function makeRow() {
    const name = h("th", { scope: "row" }, label(""));
    const cells = HEADS.slice(1).map(([, kind]) => h("td", { class: kind }, h("span")));
    return { element: h("tr", null, name, ...cells), name, cells };
  }

  function fillRow(row, one) {
    const texts = [one.arm, number(one.mean), one.second === null ? "–" : number(one.ahead), chance(one.probability)];
    setText(row.name.firstElementChild, situation(one));
    texts.forEach((text, k) => setText(row.cells[k].firstElementChild, text));
    row.cells[0].title = one.arm;
    row.cells[2].title = one.second === null ? "" : `than ${one.second}`;
  }

  function makeGroup([feature]) {
    const body = h("tbody");
    const head = headRow(HEADS);
    head.querySelector("th").replaceChildren(label(feature));
    return { element: h("table", { class: "plain segment" }, head, body), body };
  }

  return {
    element,
    draw(found) {
      const features = new Map();
      for (const one of found.segments) features.set(one.feature, [...(features.get(one.feature) ?? []), one]);
      setHidden(element, features.size === 0);
      keyed(groups, [...features], ([feature]) => feature, makeGroup, (group, [, rows]) => {
        keyed(group.body, rows, (one) => JSON.stringify([one.value, one.low]), makeRow, fillRow);
      });
    },
  };
}
