// Puts together what the address asks for, and the key when the service wants one.

import { keepKey, storedKey } from "./api.js";
import { fleetView } from "./fleet.js";
import { fleetsView } from "./fleets.js";
import { keyView } from "./key.js";
import { zone } from "./format.js";
import { parse } from "./route.js";
import { report, waitForKey } from "./status.js";

const main = document.getElementById("main");
const forget = document.getElementById("forget");
let view = null;

function heard(part, error) {
  if (error?.wantsKey) askForKey(error);
  else report(part, error);
}

function askForKey(error) {
  view?.stop();
  view = null;
  waitForKey();
  const asking = keyView(error, () => {
    show();
    main.focus();
  });
  main.replaceChildren(asking.element);
  document.title = "API key · posse";
  forget.hidden = !storedKey();
  asking.field.focus();
}

function show() {
  const route = parse(location.hash);
  forget.hidden = !storedKey();
  if (view?.accepts(route)) view.show(route);
  else {
    view?.stop();
    view = route.fleet ? fleetView(heard, route) : fleetsView(heard);
    main.replaceChildren(view.element);
    view.start();
    window.scrollTo(0, 0);
  }
  document.title = [route.tab === "tasks" ? route.item : null, view.title, "posse"].filter(Boolean).join(" · ");
}

window.addEventListener("hashchange", () => {
  if (!view) return; // the key comes first, and then what the address asks for
  show();
  // Whoever followed a link that is no longer there goes on at the new heading.
  if (document.activeElement === document.body) {
    const headings = main.querySelectorAll("[data-heading]");
    headings[headings.length - 1]?.focus({ preventScroll: headings.length === 1 });
  }
});

forget.addEventListener("click", () => {
  keepKey(null);
  view?.stop();
  view = null;
  show();
  main.focus();
});

document.getElementById("zone").textContent = `Times are in your time zone: ${zone()}.`;

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address belongs to the view
  main.focus();
  main.scrollIntoView();
});

show();
