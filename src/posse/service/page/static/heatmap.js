// A symmetric matrix as a coloured table: every cell is a cell of the table, so its number can be read out too.

import { columnLabel, h, label, onChange, setText } from "./dom.js";
import { number } from "./format.js";

const MOST = 40; // columns; more cannot be told apart
const WRITTEN = 8; // columns up to which the numbers fit into the cells

function shade(cell, share) {
  cell.classList.toggle("negative", share < 0);
  cell.style.setProperty("--share", `${(Math.abs(share) * 100).toFixed(1)}%`);
}

function scaleLegend(what, most) {
  const steps = Array.from({ length: 11 }, (_, k) => (k - 5) / 5);
  const swatches = steps.map((step) => {
    const swatch = h("span", { class: "heat-swatch" });
    shade(swatch, step);
    return swatch;
  });
  return [
    h("span", { class: "heat-what" }, what),
    h("span", null, number(-most)),
    h("span", { class: "heat-swatches" }, ...swatches),
    h("span", null, number(most)),
  ];
}

function busiest(matrix) {
  const order = matrix.map((row, k) => k).sort((a, b) => matrix[b][b] - matrix[a][a] || a - b);
  return order.slice(0, MOST).sort((a, b) => a - b);
}

export function heatmap(name) {
  const table = h("table", { class: "heat" });
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const scale = h("div", { class: "heat-scale", "aria-hidden": "true" });
  const note = h("p", { class: "hint", hidden: true });
  const element = h("div", { class: "heat-box" }, scale, h("div", { class: "scroll-x" }, table), readout, note);
  const hint = "Point at a cell, or go through the cells with the arrow keys, to read its value.";
  let shown = { columns: [], matrix: [], kept: [] };
  let cells = [];
  let current = [0, 0];

  function read(row, column) {
    const { columns, matrix, kept } = shown;
    const value = number(matrix[kept[row]][kept[column]]);
    const [first, second] = [row, column].map((k) => h("bdi", null, columns[kept[k]]));
    readout.replaceChildren(first, " × ", second, ": ", h("strong", null, value));
  }

  function rest() {
    if (table.contains(document.activeElement)) read(...current);
    else setText(readout, hint);
  }

  function placeOf(target) {
    const cell = target.closest?.("td");
    return cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : null;
  }

  function choose(row, column) {
    cells[current[0]]?.[current[1]]?.setAttribute("tabindex", "-1");
    current = [row, column];
    cells[row][column].setAttribute("tabindex", "0");
  }

  table.addEventListener("mouseover", (event) => {
    const place = placeOf(event.target);
    if (place) read(...place);
  });
  table.addEventListener("mouseleave", rest);
  table.addEventListener("focusin", (event) => {
    const place = placeOf(event.target);
    if (!place) return;
    choose(...place);
    read(...place);
  });
  table.addEventListener("focusout", () => setTimeout(rest));
  table.addEventListener("keydown", (event) => {
    const last = shown.kept.length - 1;
    const [row, column] = current;
    const to = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, last],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    cells[Math.min(Math.max(to[0], 0), last)][Math.min(Math.max(to[1], 0), last)].focus();
  });

  const build = onChange((columns, kept, what) => {
    const head = h("tr", null, h("td"), ...kept.map((k) => h("th", { scope: "col" }, label(columns[k]))));
    const cell = (row, column) => h("td", { tabindex: "-1", "data-row": row, "data-column": column }, h("span"));
    cells = kept.map((_, row) => kept.map((__, column) => cell(row, column)));
    const rows = kept.map((k, row) => h("tr", null, h("th", { scope: "row" }, columnLabel(columns[k])), ...cells[row]));
    const caption = h("caption", { class: "hidden-text" }, `${name}, ${what}`);
    table.replaceChildren(caption, h("thead", null, head), h("tbody", null, ...rows));
    table.classList.toggle("written", kept.length <= WRITTEN);
    table.style.setProperty("--columns", kept.length);
    current = [0, 0];
    if (cells.length) choose(0, 0);
    setText(readout, hint);
  });

  const paint = onChange((matrix, kept, what) => {
    const most = Math.max(...kept.flatMap((i) => kept.map((j) => Math.abs(matrix[i][j]))), Number.MIN_VALUE);
    kept.forEach((i, row) =>
      kept.forEach((j, column) => {
        const cell = cells[row][column];
        shade(cell, matrix[i][j] / most);
        setText(cell.firstElementChild, number(matrix[i][j]));
      }),
    );
    scale.replaceChildren(...scaleLegend(what, most));
    if (table.contains(document.activeElement)) read(...current);
  });

  return {
    element,
    draw(columns, matrix, what) {
      const kept = busiest(matrix);
      shown = { columns, matrix, kept };
      build(columns, kept, what);
      paint(matrix, kept, what);
      note.hidden = kept.length === columns.length;
      setText(note, `These are the ${MOST} of ${columns.length} features in which tasks differ most.`);
    },
  };
}
