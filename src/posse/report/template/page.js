"use strict";
// Sorting, filtering and a table to download; without this script the page still says everything.
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
        return [value === undefined ? cell.textContent.trim() : value === "" ? -Infinity : Number(value), row];
      });
      keyed.sort(([a], [b]) => sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true })) || 0);
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    });
  });
}

const filter = document.getElementById("filter");
const only = document.getElementById("only");
const shown = document.getElementById("shown");
if (filter) {
  document.getElementById("tools").hidden = false;
  const apply = () => {
    const text = filter.value.trim().toLowerCase();
    let n = 0;
    for (const row of document.querySelectorAll("#tasks tbody tr")) {
      const fits = (row.cells[0].textContent + " " + row.cells[1].textContent).toLowerCase().includes(text);
      row.hidden = !(fits && (only.value === "all" || row.dataset.state === only.value));
      n += !row.hidden;
    }
    shown.textContent = n.toLocaleString("en") + (n === 1 ? " task" : " tasks");
  };
  filter.addEventListener("input", apply);
  only.addEventListener("change", apply);
  apply();
}

const download = document.getElementById("download");
if (download) {
  const cell = (value) => {
    let text = String(value);
    // A spreadsheet would run a name that looks like a formula.
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  download.addEventListener("click", () => {
    const { arms, tasks } = JSON.parse(document.getElementById("data").textContent);
    const lines = ["task,arm,mean,low,high,probability_best"];
    for (const [task, ...columns] of tasks) {
      arms.forEach((arm, i) => lines.push([task, arm, ...columns.map((column) => column[i])].map(cell).join(",")));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
    link.download = "report.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
