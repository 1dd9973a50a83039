// What is shown, as the part of the address after #: #/fleet/tab/item?search=...

const TABS = ["overview", "report", "arms", "tasks", "try", "value", "pending", "log"];

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not percent-encoded by us
  }
}

export function parse(hash) {
  const [address, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [fleet = "", tab = "", item = ""] = address.split("/").map(decoded);
  return {
    fleet: fleet || null,
    tab: TABS.includes(tab) ? tab : "overview",
    item: item || null,
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function href(fleet, tab, item, query = {}) {
  const parts = [fleet, tab === "overview" && !item ? null : tab, item].filter(Boolean);
  const kept = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return `#/${parts.map(encodeURIComponent).join("/")}${kept.size ? `?${kept}` : ""}`;
}

// Changes the address without a new step for the back button and without showing anything anew.
export function amend(address) {
  if (location.hash !== address) history.replaceState(history.state, "", address);
}
