// The tabs of a fleet: links, so that they can be opened elsewhere; arrow keys go from one to the next.

import { h } from "./dom.js";
import { href } from "./route.js";

export function tabs(fleet, names, panelId) {
  const links = Object.entries(names).map(([tab, text]) =>
    h("a", { role: "tab", id: `tab-${tab}`, href: href(fleet, tab), "data-tab": tab, "aria-controls": panelId }, text),
  );
  const element = h("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the fleet" }, ...links);

  element.addEventListener("keydown", (event) => {
    const now = links.indexOf(document.activeElement);
    if (event.key === " " && now >= 0) {
      event.preventDefault();
      links[now].click();
      return;
    }
    const last = links.length - 1;
    const to = { ArrowLeft: now ? now - 1 : last, ArrowRight: now < last ? now + 1 : 0, Home: 0, End: last }[event.key];
    if (now < 0 || to === undefined) return;
    event.preventDefault();
    links[to].focus();
    links[to].click();
  });

  return {
    element,
    choose(tab) {
      for (const link of links) {
        const chosen = link.dataset.tab === tab;
        link.setAttribute("aria-selected", String(chosen));
        link.setAttribute("tabindex", chosen ? "0" : "-1");
        if (chosen) link.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
    },
  };
}
