// Asking the service: the key, the one error shape, time-outs, and the service's clock.

const KEY = "posse-key";
const TIMEOUT = 15_000;

class ApiError extends Error {
  constructor(status, code, message, retryAfter = 0) {
    super(message);
    this.status = status; // 0 when no answer came
    this.code = code;
    this.retryAfter = retryAfter;
  }

  get wantsKey() {
    return this.status === 401 || (this.status === 403 && this.code === "scope_missing");
  }

  get isMissing() {
    return this.status === 404;
  }
}

let ownKey = null; // where storage is switched off, the key is kept until the page is loaded anew

export function storedKey() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return ownKey;
  }
}

export function keepKey(key) {
  ownKey = key;
  try {
    if (key === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  } catch {
    // kept above
  }
}

let ahead = 0; // milliseconds by which the service's clock is ahead of this one

export function serverNow() {
  return Date.now() + ahead;
}

export function path(...parts) {
  return ["v1", ...parts.map(encodeURIComponent)].join("/");
}

async function failure(response) {
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    // a proxy may answer with something else
  }
  const message = error?.message ?? `The service answered ${response.status} ${response.statusText}`.trim();
  return new ApiError(response.status, error?.code ?? "", message, retryAfter);
}

// The answer to a request, once it is known to be good.
export async function open(address, { params = {}, signal, timeout = TIMEOUT, method = "GET", body } = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== ""));
  const key = storedKey();
  const signals = [signal, timeout ? AbortSignal.timeout(timeout) : null].filter(Boolean);
  let response;
  try {
    response = await fetch(query.size ? `${address}?${query}` : address, {
      method,
      headers: {
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.any(signals),
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const late = error.name === "TimeoutError";
    throw new ApiError(0, "", late ? `No answer within ${timeout / 1000} seconds.` : "No answer from the service.");
  }
  if (!response.ok) throw await failure(response);
  const date = Date.parse(response.headers.get("Date") ?? "");
  // The header has whole seconds: half of one is the best guess of what it left out.
  if (Number.isFinite(date)) ahead = date + 500 - Date.now();
  return response;
}

export async function get(address, options) {
  const response = await open(address, options);
  try {
    return await response.json();
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new ApiError(0, "", "The answer of the service was cut off.");
  }
}

// A request that changes something, or that asks with a body; nothing comes back from what was deleted.
export async function send(method, address, body, options = {}) {
  const response = await open(address, { ...options, method, body });
  return response.status === 204 ? null : response.json();
}
