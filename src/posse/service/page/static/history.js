// What happened in a task, the newest first: the arm, the probability of each, and what came of it.

import { get, path, serverNow } from "./api.js";
import { h, headRow, keyed, label, onChange, setHidden, setText, svg } from "./dom.js";
import { CONFIDENCE, age, between, intervalOf, moment, number, percent, timeOf } from "./format.js";
import { report } from "./status.js";

const PAGE = 25;
const MOST = 100; // rows that are read again every time; older ones stay as they were read

function outcome(row) {
  if (row.state === "rewarded") return number(row.reward);
  if (row.state === "expired") return "expired";
  return `pending ${age((serverNow() - timeOf(row.time)) / 1000)}`;
}

function chanceBar(row) {
  const parts = [];
  let from = 0;
  for (const [arm, chance] of Object.entries(row.probabilities)) {
    const kind = arm === row.arm ? "own" : "lent";
    const width = Math.max(chance * 100 - 1, 0.5); // with a gap to the next
    parts.push(svg("rect", { class: kind, x: `${from * 100}%`, width: `${width}%`, y: 0, height: 8 }));
    from += chance;
  }
  return svg("svg", { class: "share small", width: 72, height: 8, "aria-hidden": "true" }, ...parts);
}

function more(row, family) {
  const arms = Object.entries(row.probabilities).sort((a, b) => b[1] - a[1]);
  const head = headRow([["Arm"], ["Probability", "text"], [`Expected (${CONFIDENCE} interval)`, "text"]]);
  const lines = arms.map(([arm, chance]) => {
    const mean = row.mean?.[arm];
    const sure = mean === undefined ? "–" : `${number(mean)} (${between(...intervalOf(family, mean, row.sd?.[arm] ?? NaN))})`;
    const cells = [percent(chance), sure].map((text) => h("td", { class: "text" }, text));
    return h("tr", { class: arm === row.arm ? "chosen" : null }, h("th", { scope: "row" }, label(arm)), ...cells);
  });
  const context = Object.entries(row.context ?? {}).flatMap(([name, value]) => [
    h("dt", null, label(name)),
    h("dd", null, label(typeof value === "number" ? number(value) : String(value))),
  ]);
  return h(
    "div",
    { class: "row-more" },
    h("table", { class: "plain small" }, head, h("tbody", null, ...lines)),
    h("dl", { class: "settings small" }, ...context, h("dt", null, "id"), h("dd", { class: "mono" }, label(row.id))),
  );
}

function make(row, family) {
  const time = timeOf(row.time);
  const result = h("span", { class: "outcome" });
  const said = h("span", { class: "hidden-text" }, "chosen with probability ");
  const line = h(
    "summary",
    null,
    h("time", { datetime: row.time, title: row.time }, moment(time)),
    h("span", { class: "event-arm" }, label(row.arm)),
    h("span", { class: "event-chance" }, chanceBar(row), h("span", null, said, percent(row.propensity))),
    h("span", { class: "event-outcome" }, h("span", { class: "event-word" }, "reward "), result),
  );
  const element = h("li", { class: "event", "data-id": row.id }, h("details", null, line, more(row, family)));
  const draw = onChange((state, text) => {
    element.dataset.state = state;
    setText(result, text);
  });
  return { element, draw };
}

export function history(fleet, task) {
  let rows = [];
  let next = null;
  let older = null;
  let family = "number";
  const list = h("ol", { class: "events" });
  const button = h("button", { type: "button", onclick: loadMore }, "Load more");
  const said = h("p", { class: "hint", role: "status" });
  const foot = h("div", { class: "pages" }, button, said);
  const element = h("section", { class: "card", "aria-label": "History" }, h("h3", null, "History"), list, foot);

  function draw() {
    keyed(list, rows, (row) => row.number, (row) => make(row, family), (view, row) => view.draw(row.state, outcome(row)));
    setHidden(button, next === null);
    const shown = next === null ? "That is all there is." : `The newest ${rows.length} are shown.`;
    setText(said, rows.length ? shown : "Nothing is kept.");
  }

  async function read(params, signal) {
    return get(path("fleets", fleet, "history", task), { params, signal });
  }

  async function loadMore() {
    older?.abort();
    older = new AbortController();
    button.disabled = true;
    try {
      const answer = await read({ limit: PAGE, before: next }, older.signal);
      const last = rows.at(-1)?.number ?? Infinity;
      rows = [...rows, ...answer.decisions.filter((row) => row.number < last)];
      next = answer.next;
      report("history", null);
      draw();
    } catch (error) {
      if (!older.signal.aborted) report("history", error);
    } finally {
      button.disabled = false;
    }
  }

  return {
    element,
    async load(signal) {
      const answer = await read({ limit: Math.min(Math.max(rows.length, PAGE), MOST) }, signal);
      const last = answer.decisions.at(-1)?.number ?? 0;
      // Rows further back stay, unless so much has happened that there would be a gap before them.
      const joined = rows.some((row) => row.number >= last);
      const kept = answer.next !== null && joined ? rows.filter((row) => row.number < last) : [];
      if (!kept.length) next = answer.next;
      family = answer.reward_family;
      rows = [...answer.decisions, ...kept];
      draw();
    },
    stop() {
      older?.abort();
      report("history", null);
    },
  };
}
