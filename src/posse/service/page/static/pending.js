// Decisions that wait for their reward, the oldest first.

import { get, path } from "./api.js";
import { empty, h, headRow, keyed, label, setHidden, setText } from "./dom.js";
import { age, count, moment, number, timeOf } from "./format.js";
import { href } from "./route.js";

const PAGE = 100;
const MOST = 1000;

export function pendingPanel({ fleet, soon }) {
  let limit = PAGE;
  const body = h("tbody");
  const waits = h("p", { class: "hint" });
  const none = empty("No decision waits for a reward", "When a reward is known, POST it to /v1/decisions/ID/reward.");
  none.hidden = true;
  const button = h("button", { type: "button", onclick: more }, "Load more");
  const said = h("p", { class: "hint", role: "status" });
  const head = headRow([
    ["Task", "wide-name"],
    ["Arm"],
    ["Waiting", "text"],
    ["Since", "text wide-only"],
    ["Decision", "wide-only"],
  ]);
  const caption = h("caption", { class: "hidden-text" }, "Decisions without a reward");
  const list = h(
    "div",
    { class: "card", hidden: true },
    waits,
    h("table", { class: "plain" }, caption, head, body),
    h("div", { class: "pages" }, button, said),
  );
  const element = h("div", { class: "stack" }, none, list);

  function more() {
    limit = Math.min(limit + PAGE, MOST);
    soon();
  }

  function make(row) {
    const waiting = h("td", { class: "text" });
    const element = h(
      "tr",
      { "data-id": row.id },
      h("th", { scope: "row" }, h("a", { href: href(fleet, "tasks", row.task) }, label(row.task))),
      h("td", null, label(row.arm)),
      waiting,
      h("td", { class: "text wide-only" }, moment(timeOf(row.time))),
      h("td", { class: "wide-only mono" }, label(row.id)),
    );
    return { element, waiting };
  }

  return {
    element,
    seconds: 5,
    accepts: () => true,
    show() {},
    update(now) {
      const life = now.definition.time_to_live;
      const wait = life ? `A decision waits for ${age(life)}; after that its reward is refused` : "They wait for ever";
      const absent = now.pending_reward;
      const counts = absent === null ? "" : ` Until then each counts as ${number(absent)}.`;
      setText(waits, `The oldest first. ${wait}.${counts}`);
    },
    async load(signal) {
      const answer = await get(path("fleets", fleet, "pending"), { signal, params: { limit } });
      const { pending, total } = answer;
      keyed(body, pending, (row) => row.id, make, (row, item) => setText(row.waiting, age(item.age)));
      setHidden(none, pending.length > 0);
      setHidden(list, pending.length === 0);
      setHidden(button, pending.length >= total || limit >= MOST);
      const all = pending.length >= total;
      setText(said, all ? `${count(total)} in all` : `${count(pending.length)} of ${count(total)} are shown.`);
    },
  };
}
