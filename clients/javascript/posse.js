/**
 * Client of the posse decision service, for Node 18 and later and for browsers. No dependencies.
 *
 * It tries again what is worth another try, under one idempotency key, so that nothing counts twice; and decides for a
 * fallback arm when the service cannot be asked.
 */

/** Every call: its method and path. A test compares this with the OpenAPI description of the service. */
export const ROUTES = Object.freeze({
  createFleet: ["PUT", "/v1/fleets/{fleet}"],
  fleet: ["GET", "/v1/fleets/{fleet}"],
  fleets: ["GET", "/v1/fleets"],
  addArm: ["POST", "/v1/fleets/{fleet}/arms"],
  retireArm: ["DELETE", "/v1/fleets/{fleet}/arms/{arm}"],
  setTaskFeatures: ["POST", "/v1/fleets/{fleet}/task-features"],
  decide: ["POST", "/v1/fleets/{fleet}/decisions"],
  rank: ["POST", "/v1/fleets/{fleet}/rankings"],
  choose: ["POST", "/v1/fleets/{fleet}/choices"],
  decideMany: ["POST", "/v1/fleets/{fleet}/decisions/batch"],
  reward: ["POST", "/v1/decisions/{id}/reward"],
  correct: ["PUT", "/v1/decisions/{id}/reward"],
  rewardMany: ["POST", "/v1/rewards"],
  decision: ["GET", "/v1/decisions/{id}"],
  task: ["GET", "/v1/fleets/{fleet}/tasks/{task}"],
  eraseTask: ["DELETE", "/v1/fleets/{fleet}/tasks/{task}"],
  health: ["GET", "/readyz"],
});

const WORTH_ANOTHER_TRY = new Set([429, 502, 503, 504]);
const SET_ASIDE = "fleet_set_aside"; // about one fleet: waiting does not help soon, and other fleets are served

/** The service refused, or could not be asked. */
export class ServiceError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code: string, field?: string | null, requestId?: string | null}} told
   */
  constructor(message, { status = 0, code, field = null, requestId = null }) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
    this.code = code;
    this.field = field;
    this.requestId = requestId;
  }

  /** Whether the service could not be asked, or is busy: worth asking later. */
  get unavailable() {
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }
}

export class Client {
  /**
   * @param {string} baseUrl  Address of the service.
   * @param {import("./posse.d.ts").Settings} [settings]
   */
  constructor(baseUrl, settings = {}) {
    const known = ["key", "timeout", "retries", "backoff", "backoffLimit", "deadline", "fallback", "pause", "fetch"];
    for (const name of Object.keys(settings)) {
      if (!known.includes(name)) throw new TypeError(`no setting ${name}; the settings are ${known.join(", ")}`);
    }
    const given = { key: null, timeout: 2000, retries: 3, backoff: 100, backoffLimit: 2000, deadline: 10000, ...settings };
    const url = new URL(baseUrl);
    if (!["http:", "https:"].includes(url.protocol)) throw new TypeError(`expected http:// or https://, got ${baseUrl}`);
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this._key = given.key;
    this._patience = given;
    this._fallback = given.fallback ?? null;
    this._pause = given.pause ?? 1000;
    this._until = null; // when the service may be asked again after it did not answer
    this._fetch = given.fetch ?? ((...all) => globalThis.fetch(...all));
  }

  createFleet(fleet, definition) {
    return this._ask("createFleet", { fleet }, definition);
  }

  fleet(fleet) {
    return this._ask("fleet", { fleet });
  }

  async fleets() {
    return (await this._ask("fleets", {})).fleets;
  }

  addArm(fleet, arm, features) {
    return this._ask("addArm", { fleet }, features === undefined ? { arm } : { arm, features });
  }

  retireArm(fleet, arm) {
    return this._ask("retireArm", { fleet, arm });
  }

  /** Ask for a decision; with a fallback this never fails because the service is away. */
  async decide(fleet, task, context, { eligible = null, explore = true, key = newKey() } = {}) {
    const question = { task, context, eligible, explore };
    const [decision] = await this._orFallBack(fleet, [question], async (tries) => [
      await this._ask("decide", { fleet }, question, { headers: { "idempotency-key": key }, tries }),
    ]);
    return decision;
  }

  /** Ask for k distinct arms, best place first: a decision per place. There is no fallback. */
  async rank(fleet, task, context, k, { eligible = null, explore = true, key = newKey() } = {}) {
    const options = { headers: { "idempotency-key": key } };
    return (await this._ask("rank", { fleet }, { task, context, eligible, explore, k }, options)).places;
  }

  /** Ask a catalogue to choose among arms with their features: k decisions, best place first. There is no fallback. */
  async choose(fleet, task, context, eligible, { k = 1, explore = true, key = newKey() } = {}) {
    const options = { headers: { "idempotency-key": key } };
    return (await this._ask("choose", { fleet }, { task, context, eligible, explore, k }, options)).places;
  }

  /** Say what is known about tasks, in a fleet with task features; resolves to of how many. */
  async setTaskFeatures(fleet, tasks) {
    return (await this._ask("setTaskFeatures", { fleet }, { tasks })).tasks;
  }

  /** Ask for many decisions, all or none. */
  async decideMany(fleet, questions, { key = newKey() } = {}) {
    if (questions.length === 0) return [];
    return this._orFallBack(fleet, questions, async (tries) => {
      const options = { headers: { "idempotency-key": key }, tries };
      return (await this._ask("decideMany", { fleet }, { decisions: questions }, options)).decisions;
    });
  }

  /** Report a reward, once; resolves to whether it was news. A fallback takes none. */
  async reward(decision, value, { event } = {}) {
    const id = idOf(decision);
    if (id === null) return false;
    const body = event === undefined ? { reward: value } : { reward: value, event };
    return (await this._ask("reward", { id }, body)).new;
  }

  /** Give a decision another reward than it has; resolves to whether it was news. */
  async correct(decision, value, { insteadOf } = {}) {
    const id = idOf(decision);
    if (id === null) return false;
    const body = insteadOf === undefined ? { reward: value } : { reward: value, instead_of: insteadOf };
    return (await this._ask("correct", { id }, body)).new;
  }

  /** Report many rewards, all or none: [decision or id, reward], and an event where several make a reward. */
  async rewardMany(pairs) {
    const rewards = pairs
      .map(([decision, reward, event]) => ({ id: idOf(decision), reward, ...(event === undefined ? {} : { event }) }))
      .filter(({ id }) => id !== null);
    return rewards.length === 0 ? { new: 0, same: 0 } : this._ask("rewardMany", {}, { rewards });
  }

  decision(id) {
    return this._ask("decision", { id });
  }

  task(fleet, task) {
    return this._ask("task", { fleet, task });
  }

  eraseTask(fleet, task) {
    return this._ask("eraseTask", { fleet, task });
  }

  /** Whether the service takes requests, in one try. */
  async health() {
    try {
      await this._ask("health", {}, undefined, { tries: 1 });
      return true;
    } catch (error) {
      if (error instanceof ServiceError) return false;
      throw error;
    }
  }

  async _ask(name, parts, body, { headers = {}, tries = 1 + this._patience.retries } = {}) {
    const [method, path] = ROUTES[name];
    const url = this.baseUrl + path.replace(/{(\w+)}/g, (_, part) => encodeURIComponent(checkedName(parts[part], part)));
    const sent = { accept: "application/json", ...headers };
    if (this._key) sent.authorization = `Bearer ${this._key}`;
    if (body !== undefined) sent["content-type"] = "application/json";
    const text = body === undefined ? undefined : JSON.stringify(body, refuseOddNumbers);
    const { deadline, timeout, backoff, backoffLimit } = this._patience;
    const until = deadline === null ? Infinity : Date.now() + deadline;
    for (let failures = 1; ; failures++) {
      let answer = null;
      let failure;
      try {
        const patience = Math.max(1, Math.min(timeout, until - Date.now()));
        answer = await this._fetch(url, { method, headers: sent, body: text, signal: AbortSignal.timeout(patience) });
        const told = await answer.text();
        if (answer.ok) return answer.status === 204 ? null : JSON.parse(told);
        failure = errorOf(answer, told);
      } catch (error) {
        const what = answer === null ? "no_answer" : "bad_answer";
        failure = new ServiceError(`the service at ${this.baseUrl} gave no result: ${error.message}`, { code: what });
      }
      const again = failure.status === 0 || (WORTH_ANOTHER_TRY.has(failure.status) && failure.code !== SET_ASIDE);
      const asked = answer === null ? 0 : retryAfter(answer.headers.get("retry-after"));
      const wait = asked + Math.random() * Math.min(backoffLimit, backoff * 2 ** (failures - 1));
      if (!again || failures >= tries || Date.now() + wait >= until) throw failure;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async _orFallBack(fleet, questions, ask) {
    if (this._fallback === null) return ask(undefined);
    let tries;
    if (this._until !== null) {
      if (Date.now() < this._until) {
        const reason = `the service at ${this.baseUrl} did not answer a moment ago`;
        const decisions = this._fallbacks(fleet, questions, reason);
        if (decisions !== null) return decisions;
      } else {
        this._until = Date.now() + this._pause; // the others wait while this one finds out
        tries = 1;
      }
    }
    try {
      const decisions = await ask(tries);
      this._until = null;
      return decisions;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const away = error.unavailable && error.code !== SET_ASIDE;
      this._until = away && this._pause > 0 ? Date.now() + this._pause : null;
      const decisions = error.unavailable ? this._fallbacks(fleet, questions, error.message) : null;
      if (decisions === null) throw error;
      return decisions;
    }
  }

  /** Decisions for the fallback arm, or null if it is not eligible for one of them. */
  _fallbacks(fleet, questions, reason) {
    const decisions = [];
    for (const { task, context, eligible = null } of questions) {
      const chosen = this._fallback;
      const arm = typeof chosen === "function" ? chosen(fleet, task, context, eligible) : chosen;
      if (typeof arm !== "string") throw new TypeError(`the fallback must give the name of an arm, but gave ${arm}`);
      if (eligible !== null && !eligible.includes(arm)) return null;
      const unknown = { propensity: null, probabilities: {}, mean: {}, sd: {} };
      decisions.push({ id: null, fleet, task, arm, ...unknown, fallback: true, reason });
    }
    return decisions;
  }
}

function idOf(decision) {
  return typeof decision === "string" ? decision : decision.id;
}

function checkedName(value, what) {
  if (typeof value !== "string" || value === "") throw new TypeError(`expected ${what} as text, got ${value}`);
  return value;
}

/** JSON has no NaN, and would say null, which means something else. */
function refuseOddNumbers(name, value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${name} must be a number, got ${value}`);
  return value;
}

function newKey() {
  if (globalThis.crypto?.randomUUID) return globalThis.crypto.randomUUID();
  // Pages that did not come over TLS have no randomUUID.
  return Array.from({ length: 4 }, () => Math.random().toString(36).slice(2)).join("");
}

function retryAfter(text) {
  if (text === null) return 0;
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : 0;
}

function errorOf(answer, text) {
  const more = { status: answer.status, requestId: answer.headers.get("x-request-id") };
  try {
    const { message, code, field } = JSON.parse(text).error;
    return new ServiceError(String(message), { ...more, code: String(code), field });
  } catch {
    const words = `status ${answer.status} without the error that posse serve would send; is this its address?`;
    return new ServiceError(words, { ...more, code: `http_${answer.status}` });
  }
}
