// Whether what is shown is fresh: a word in the header, and a notice with the reason when it is not.

import { h, setHidden, setText } from "./dom.js";
import { sentence } from "./format.js";

const word = document.getElementById("status");
const notice = document.getElementById("notice");
const failing = new Map();

function show(state, text) {
  word.dataset.state = state;
  setText(word, text);
}

function headline(error) {
  if (error.code === "fleet_set_aside") return "This fleet is set aside.";
  if (error.status === 429) return "Too many requests, trying again more slowly.";
  if (error.code === "not_ready") return "The service is getting ready.";
  if (error.status === 0 || error.status >= 500) return "Not reachable, trying again.";
  return "The service refused the request.";
}

// A part of the page tells how its last request went: null is well.
export function report(part, error) {
  if (error) {
    failing.set(part, error);
    // Something of ours that broke is not the service's failure; it belongs in the console.
    if (error.status === undefined) console.error(error);
  } else failing.delete(part);
  const [first] = failing.values();
  setHidden(notice, !first);
  if (!first) {
    show("live", "Live");
    return;
  }
  const starting = first.code === "not_ready";
  const away = first.status === 0 || (first.status >= 500 && first.code !== "fleet_set_aside");
  show("away", starting ? "Getting ready" : away ? "Not reachable" : "Trouble");
  const reason = sentence(first.message);
  const text = `${headline(first)} ${reason}`;
  if (notice.dataset.text !== text) {
    notice.dataset.text = text;
    notice.replaceChildren(h("strong", null, headline(first)), ` ${reason}`);
  }
}

export function waitForKey() {
  failing.clear();
  setHidden(notice, true);
  show("key", "Key needed");
}
