"use strict";
// Sorting and finding; without this script the page still says everything.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = header.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending" ||
        (header.getAttribute("aria-sort") !== "descending" && header.dataset.first === "descending");
      const sign = down ? -1 : 1;
      for (const other of headers) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = [...table.tBodies[0].rows].map((row) => {
        const cell = row.cells[column];
        const value = cell.dataset.v;
        return [value === undefined ? cell.textContent.trim() : Number(value), row];
      });
      keyed.sort(([a], [b]) => sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true })) || 0);
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    });
  });
}

const filter = document.getElementById("filter");
const shown = document.getElementById("shown");
if (filter) {
  document.getElementById("tools").hidden = false;
  const apply = () => {
    const text = filter.value.trim().toLowerCase();
    let n = 0;
    for (const row of document.querySelectorAll("#tasks tbody tr")) {
      row.hidden = !(row.cells[0].textContent + " " + row.cells[1].textContent).toLowerCase().includes(text);
      n += !row.hidden;
    }
    shown.textContent = `${n.toLocaleString("en")} ${n === 1 ? shown.dataset.one : shown.dataset.many}`;
  };
  filter.addEventListener("input", apply);
  apply();
}
