// What takes the service a while to find out: asked for by several tabs, which share the last answer.

import { get, path } from "./api.js";

let last = { fleet: null, answer: null };

export function latestInsights(fleet) {
  return last.fleet === fleet ? last.answer : null;
}

export async function loadInsights(fleet, signal) {
  const answer = await get(path("fleets", fleet, "insights"), { signal });
  // While another one is made, the last is as good as it gets.
  if (answer.state !== "making" || last.fleet !== fleet) last = { fleet, answer };
  return last.answer;
}
