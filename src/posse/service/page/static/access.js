// What the key may do, so that nothing is offered that would be refused.

import { get, path, storedKey } from "./api.js";

let known = { key: undefined, scopes: [] };

export async function mayAdminister(signal) {
  const key = storedKey();
  if (known.key !== key) {
    const { scopes } = await get(path("access"), { signal });
    known = { key, scopes };
  }
  return known.scopes.includes("admin");
}
