// The log as a file. It is fetched rather than linked to, because the key travels in a header.

import { open, path } from "./api.js";
import { code, h, setHidden, setText } from "./dom.js";
import { bytes, plural, sentence } from "./format.js";

const KINDS = {
  parquet: ["Parquet", "One row per decision with its reward; for Polars, pandas, DuckDB and posse evaluate."],
  jsonl: ["JSON Lines", "One line of text per decision with its reward."],
};

async function save(fleet, format, signal, progress) {
  const response = await open(path("fleets", fleet, "log"), { params: { format }, signal, timeout: 0 });
  const parts = [];
  let size = 0;
  const reader = response.body.getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    parts.push(piece.value);
    size += piece.value.length;
    progress(size);
  }
  const address = URL.createObjectURL(new Blob(parts));
  const link = h("a", { href: address, download: `${fleet}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  return size;
}

export function logPanel({ fleet }) {
  let current = null;
  const said = h("p", { class: "hint", role: "status" });
  const rows = h("p", null);
  const abort = () => current?.abort();
  const cancel = h("button", { type: "button", class: "quiet", hidden: true, onclick: abort }, "Cancel");
  const buttons = Object.entries(KINDS).map(([format, [name, about]]) => {
    const button = h("button", { type: "button", onclick: () => start(format) }, `Download ${name}`);
    return h("div", { class: "download" }, button, h("p", { class: "hint" }, about));
  });
  const foot = h("div", { class: "pages" }, cancel, said);
  const command = `curl -o ${fleet}.parquet '${location.origin}/v1/fleets/${fleet}/log?format=parquet'`;
  const element = h(
    "div",
    { class: "stack" },
    h("div", { class: "card stack" }, h("h2", null, "The log"), rows, h("div", { class: "two" }, ...buttons), foot),
    h("div", { class: "card stack" }, h("h2", null, "From a terminal"), code(command)),
  );

  async function start(format) {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    setHidden(cancel, false);
    setText(said, "Waiting for the service …");
    try {
      const size = await save(fleet, format, mine.signal, (got) => setText(said, `Downloading: ${bytes(got)}`));
      setText(said, `Saved ${fleet}.${format}, ${bytes(size)}.`);
    } catch (error) {
      if (current !== mine) return;
      if (mine.signal.aborted) setText(said, "Cancelled.");
      else setText(said, `The download failed. ${sentence(error.message)}`);
    }
    if (current === mine) setHidden(cancel, true);
  }

  return {
    element,
    seconds: 60,
    accepts: () => true,
    show() {},
    update(now) {
      const size = `${plural(now.decisions, "decision")}, ${plural(now.rewards, "reward")}`;
      setText(rows, `${size}: every decision with its context, probabilities and reward.`);
    },
    async load() {},
    stop: abort,
  };
}
