// Arm by arm: how often it is taken, what it earned, and in how many tasks it looks best.

import { h, headRow, keyed, label, setHidden, setText } from "./dom.js";
import { count, number, percent } from "./format.js";

const HEADS = [["Arm", "wide-name"], ["Taken", "text"], ["Mean reward", "text"], ["Best in tasks", "text"]];

export function sharesCard() {
  const body = h("tbody");
  const element = h(
    "section",
    { class: "card", hidden: true, "aria-labelledby": "shares-title" },
    h("h2", { id: "shares-title" }, "Arms"),
    h(
      "p",
      { class: "hint" },
      "How often each was taken, the mean of the rewards that came for it, and in how many tasks it looks best (in " +
        "brackets: where that is at least 90% sure). An arm that is taken where it suits may earn less than another does elsewhere.",
    ),
    h("table", { class: "plain shares" }, headRow(HEADS), body),
  );

  function makeRow() {
    const name = h("th", { scope: "row" }, label(""));
    const cells = HEADS.slice(1).map(([, kind]) => h("td", { class: kind }, h("span")));
    return { element: h("tr", null, name, ...cells), name, cells };
  }

  function fillRow(row, one) {
    setText(row.name.firstElementChild, one.retired ? `${one.arm} (retired)` : one.arm);
    const texts = [percent(one.share), number(one.mean_reward), `${count(one.best_in)} (${count(one.sure_in)})`];
    texts.forEach((text, k) => setText(row.cells[k].firstElementChild, text));
  }

  return {
    element,
    draw(found) {
      setHidden(element, found.arms.length === 0);
      keyed(body, found.arms, (one) => one.arm, makeRow, fillRow);
    },
  };
}
