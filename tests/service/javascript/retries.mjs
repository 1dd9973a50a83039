// A service that fails in every way before it answers: each way is tried again under one key, and given up in time.
import http from "node:http";
import { Client, ServiceError } from "../../../clients/javascript/posse.js";

let plan = [];
let seen = [];
const server = http.createServer((request, response) => {
  seen.push([request.headers["idempotency-key"] ?? null, request.headers.authorization ?? null]);
  const step = plan.shift() ?? { status: 200 };
  if (step.drop) return request.socket.destroy();
  if (step.hang) return undefined;
  const body = step.body ?? JSON.stringify(
    step.status === 200
      ? { id: "x-1", fleet: "f", task: "t", arm: "cake", propensity: 1, probabilities: {}, mean: {}, sd: {} }
      : { error: { code: step.code ?? "storage_unavailable", message: "later", field: null } },
  );
  response.writeHead(step.status, { "content-type": "application/json", ...(step.headers ?? {}) });
  return response.end(body);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}/`;
const told = {};

async function run(name, steps, settings = {}, call = (client) => client.decide("f", "t", [1])) {
  [plan, seen] = [steps, []];
  const begin = Date.now();
  let result;
  try {
    const made = await call(new Client(url, { key: "posse_k_s", backoff: 1, timeout: 200, ...settings }));
    result = made.fallback ? `fallback ${made.arm}` : (made.arm ?? made);
  } catch (error) {
    result = error instanceof ServiceError ? error.code : error.name;
  }
  const keys = new Set(seen.map(([key]) => key));
  told[name] = { result, tries: seen.length, keys: keys.size, key: seen[0]?.[1] ?? null, ms: Date.now() - begin };
}

await run("busy", [{ status: 503 }, { status: 429 }, { status: 502, body: "<html>" }, { status: 200 }]);
await run("dropped", [{ drop: true }, { drop: true }, { status: 200 }]);
await run("hangs", [{ hang: true }, { status: 200 }]);
await run("nonsense", [{ status: 200, body: "{" }, { status: 200 }]);
await run("refused", [{ status: 422, code: "invalid" }]);
await run("set aside", [{ status: 503, code: "fleet_set_aside" }], { fallback: "coffee" });
await run("gives up", Array(9).fill({ status: 503 }), { retries: 2 });
await run("falls back", Array(9).fill({ status: 503 }), { retries: 2, fallback: (f, t) => `arm of ${t}` });
await run("not eligible", Array(9).fill({ status: 503 }), { retries: 0, fallback: "coffee" }, (client) =>
  client.decide("f", "t", [1], { eligible: ["cake"] }));
await run("waits", [{ status: 503, headers: { "retry-after": "1" } }, { status: 200 }]);
await run("deadline", [{ status: 503, headers: { "retry-after": "5" } }], { deadline: 500 });
console.log(JSON.stringify(told));
server.closeAllConnections();
server.close();
