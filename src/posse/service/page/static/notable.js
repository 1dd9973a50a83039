// What is unusual, and what looks wrong.

import { h, keyed, label, setHidden, setText } from "./dom.js";
import { number, sentence } from "./format.js";
import { href } from "./route.js";
import { columnWords } from "./words.js";

function unusual(fleet, one) {
  const link = h("a", { href: href(fleet, "tasks", one.task) }, label(one.task));
  const level = "in its level, whatever the situation";
  const differs = one.feature === null ? level : `in how ${columnWords(one.feature)} counts`;
  return h(
    "li",
    null,
    link,
    ": ",
    h("bdi", null, one.arm),
    ` is expected to earn ${number(one.mean)} there, ${number(one.typical)} in a typical task; that is ` +
      `${number(Math.abs(one.distance))} times the usual difference between tasks. It differs most ${differs}.`,
  );
}

function wrong(one) {
  const help = one.what_to_do ? ` What helps: ${one.what_to_do}.` : "";
  return h("li", null, h("bdi", null, `${sentence(one.text)}.${help}`));
}

export function notableCard(fleet) {
  const tasks = h("ul", { class: "findings" });
  const noTasks = h("p", { class: "hint" }, "No task is further from the others than chance would put one.");
  const findings = h("ul", { class: "findings" });
  const fine = h(
    "p",
    { class: "hint" },
    "Nothing looks wrong: arms and features could be learned about, and the log holds no contradictions.",
  );
  const notes = h("ul", { class: "findings" });
  const more = h("details", null, h("summary", null, "Good to know about the log"), notes);
  const element = h(
    "section",
    { class: "card stack", hidden: true },
    h("div", null, h("h2", null, "What is unusual"), tasks, noTasks),
    h("div", null, h("h2", null, "What looks wrong"), findings, fine, more),
  );

  return {
    element,
    draw(found) {
      setHidden(element, found.state !== "ready" && !found.findings.length);
      keyed(tasks, found.unusual, (one) => JSON.stringify(one), (one) => ({ element: unusual(fleet, one) }));
      setHidden(noTasks, found.unusual.length > 0);
      const problems = found.findings.filter((one) => one.severity !== "note");
      const rest = found.findings.filter((one) => one.severity === "note");
      keyed(findings, problems, (one) => one.text, (one) => ({ element: wrong(one) }));
      keyed(notes, rest, (one) => one.text, (one) => ({ element: wrong(one) }));
      setHidden(fine, problems.length > 0);
      setHidden(more, rest.length === 0);
      setText(more.firstElementChild, `Good to know about the log (${rest.length})`);
    },
  };
}
