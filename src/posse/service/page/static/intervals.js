// A table whose rows draw a number with its interval on one common axis. The numbers are there as text too.

import { columnLabel, h, keyed, onChange, setText, svg } from "./dom.js";
import { number } from "./format.js";
import { extent, ticks } from "./scale.js";

const HEIGHT = 26;
const MIDDLE = HEIGHT / 2;

function place(value, [low, high]) {
  return `${(((value - low) / (high - low)) * 100).toFixed(3)}%`;
}

function drawRow(graph, row, domain, grid) {
  const parts = grid.map((tick) => {
    const x = place(tick, domain);
    return svg("line", { class: tick === 0 ? "zero" : "grid", x1: x, x2: x, y1: 0, y2: HEIGHT });
  });
  const span = (low, high, name) => {
    if (low === null || low === undefined) return;
    parts.push(svg("line", { class: name, x1: place(low, domain), x2: place(high, domain), y1: MIDDLE, y2: MIDDLE }));
  };
  span(row.outerLow, row.outerHigh, "outer");
  span(row.low, row.high, "inner");
  if (Number.isFinite(row.mark)) {
    const x = place(row.mark, domain);
    parts.push(svg("line", { class: "mark", x1: x, x2: x, y1: 4, y2: HEIGHT - 4 }));
  }
  if (Number.isFinite(row.value)) {
    parts.push(svg("circle", { class: "dot", cx: place(row.value, domain), cy: MIDDLE, r: 4.5 }));
  }
  graph.replaceChildren(...parts);
}

export function domainOf(rows, around = []) {
  const keys = ["value", "low", "high", "outerLow", "outerHigh", "mark"];
  return extent([...around, ...rows.flatMap((row) => keys.map((key) => row[key]).filter((value) => value !== null))]);
}

// What the rows show in words, for the legend above the table.
export function legend(entries) {
  const item = ([kind, text]) => {
    const sample = svg("svg", { class: "sample intervals-graph", width: 22, height: 14, "aria-hidden": "true" });
    if (kind === "dot") sample.append(svg("circle", { class: "dot", cx: 11, cy: 7, r: 4.5 }));
    else if (kind === "mark") sample.append(svg("line", { class: "mark", x1: 11, x2: 11, y1: 0, y2: 14 }));
    else sample.append(svg("line", { class: kind, x1: 1, x2: 21, y1: 7, y2: 7 }));
    return h("li", null, sample, text);
  };
  return h("ul", { class: "legend" }, ...entries.map(item));
}

// columns: the columns of text, as [heading, row => text, class, row => text that is only read out].
export function intervals({ caption, head, columns, unit }) {
  const body = h("tbody");
  const axis = svg("svg", { class: "intervals-graph axis", "aria-hidden": "true", width: "100%", height: 20 });
  const unitName = h("span", { class: "unit" }, unit);
  const fill = columns.map(([, , name]) => h("td", { class: name }));
  const element = h(
    "table",
    { class: "intervals" },
    h("caption", { class: "hidden-text" }, caption),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, head),
        h("td", { class: "graph", "aria-hidden": "true" }, unitName),
        ...columns.map(([heading, , name]) => h("th", { scope: "col", class: `text ${name ?? ""}` }, heading)),
      ),
    ),
    body,
    h("tfoot", { "aria-hidden": "true" }, h("tr", null, h("td"), h("td", { class: "graph" }, axis), ...fill)),
  );

  function make(row) {
    const graph = svg("svg", { class: "intervals-graph", "aria-hidden": "true", width: "100%", height: HEIGHT });
    const cells = columns.map(([, , name, aside]) =>
      h("td", { class: `text ${name ?? ""}` }, h("span"), aside ? h("span", { class: "hidden-text" }) : null),
    );
    const draw = onChange((data, domain, grid) => drawRow(graph, data, domain, grid));
    const head = h("th", { scope: "row" }, row.label ? columnLabel(row.name) : row.name);
    return { element: h("tr", null, head, h("td", { class: "graph" }, graph), ...cells), cells, draw };
  }

  const drawAxis = onChange((domain, grid) => {
    axis.replaceChildren(
      ...grid.map((tick) => {
        const share = (tick - domain[0]) / (domain[1] - domain[0]);
        const anchor = share < 0.06 ? "start" : share > 0.94 ? "end" : "middle";
        return svg("text", { x: place(tick, domain), y: 14, "text-anchor": anchor }, number(tick));
      }),
    );
  });

  return {
    element,
    draw(rows, domain = domainOf(rows), unitNow = unit) {
      setText(unitName, unitNow);
      const grid = ticks(domain[0], domain[1], 4);
      drawAxis(domain, grid);
      keyed(body, rows, (row) => row.name, make, (view, row) => {
        view.draw(row, domain, grid);
        columns.forEach(([, text, , aside], k) => {
          setText(view.cells[k].firstElementChild, text(row));
          if (aside) setText(view.cells[k].lastElementChild, aside(row));
        });
      });
    },
  };
}
