// What is wrong with one fleet, in its own words; the others are served.

import { h, setHidden, setText } from "./dom.js";
import { sentence } from "./format.js";

const WORDS = { set_aside: "Set aside", degraded: "Degraded" };

export function trouble() {
  return h("p", { class: "trouble", "data-trouble": true, hidden: true }, h("strong"), h("span"));
}

export function showTrouble(element, fleet) {
  const word = WORDS[fleet.state];
  setHidden(element, !word);
  if (!word) return;
  setText(element.firstElementChild, `${word}. `);
  setText(element.lastElementChild, sentence(fleet.reason ?? ""));
}
