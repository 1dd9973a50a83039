// The first thing to see: every fleet with its counts.

import { get, path } from "./api.js";
import { mayAdminister } from "./access.js";
import { code, empty, h, keyed, label, setHidden, setText } from "./dom.js";
import { count, plural } from "./format.js";
import { loop } from "./live.js";
import { showTrouble, trouble } from "./trouble.js";
import { newFleetForm } from "./newfleet.js";
import { href } from "./route.js";
import { policyWords } from "./words.js";

const COUNTS = ["tasks", "decisions", "rewards", "pending"];

const EXAMPLE = `curl -X PUT ${location.origin}/v1/fleets/shops \\
  -H 'Content-Type: application/json' \\
  -d '{"arms": ["coffee", "tea"], "features": ["hour"]}'`;

function make(fleet) {
  const numbers = COUNTS.map(() => h("dd"));
  const about = h("p", { class: "hint" });
  const counts = COUNTS.map((name, k) => h("div", null, h("dt", null, name), numbers[k]));
  const link = h("a", { class: "card-link", href: href(fleet.name) }, label(fleet.name));
  const list = h("dl", { class: "counts" }, ...counts);
  const wrong = trouble();
  const element = h("li", { class: "card fleet-card" }, h("h2", null, link), wrong, about, list);
  return { element, numbers, about, wrong };
}

function update(row, fleet) {
  COUNTS.forEach((name, k) => setText(row.numbers[k], count(fleet[name])));
  const size = `${plural(fleet.arms.length, "arm")}, ${plural(fleet.definition.features.length, "feature")}`;
  setText(row.about, `${size}; ${policyWords(fleet.definition.policy)}`);
  showTrouble(row.wrong, fleet);
}

export function fleetsView(report) {
  const list = h("ul", { class: "cards" });
  const none = empty("No fleets yet", "Create one: a name, the arms to choose among and what a context is made of.");
  none.append(code(EXAMPLE));
  none.hidden = true;
  const heading = h("h1", { tabindex: "-1", "data-heading": true }, "Fleets");
  const making = newFleetForm();
  making.button.hidden = true;
  const head = h("div", { class: "card-head" }, heading, making.button);
  const element = h("div", { class: "view", "aria-busy": "true" }, head, making.form, list, none);

  const fresh = loop(
    async (signal) => {
      const { fleets } = await get(path("fleets"), { signal });
      keyed(list, fleets, (fleet) => fleet.name, make, update);
      setHidden(none, fleets.length > 0);
      element.setAttribute("aria-busy", "false");
      setHidden(making.button, !(await mayAdminister(signal)));
    },
    1,
    (error) => report("fleets", error),
  );

  const accepts = (route) => !route.fleet;
  return { element, title: "Fleets", accepts, show() {}, start: fresh.start, stop: fresh.stop };
}
