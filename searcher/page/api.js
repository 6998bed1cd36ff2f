// All requests of the page: the key, deadlines, errors, and how long each took.

const KEY = "dyad.key";
const DEADLINE_MS = 60_000;
const KEPT = 1000;

/** Requests of this page since it was opened, the last ones: path, milliseconds, and the stages of a search. */
export const requests = [];
const listeners = [];

/** Calls back after every request. */
export function onRequest(listener) {
  listeners.push(listener);
}

/** The key that was typed in; kept until the tab is closed. */
export function key() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a key, or forgets it where it is empty. */
export function setKey(value) {
  try {
    if (value) {
      sessionStorage.setItem(KEY, value);
    } else {
      sessionStorage.removeItem(KEY);
    }
  } catch {
    // A browser that keeps nothing asks again.
  }
}

/** A request that was not answered. */
export class Refused extends Error {
  constructor(message, code = 0, status = "", retryMs = 0) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryMs = retryMs;
  }
}

function note(path, started, answer) {
  const stages = answer?.timings ?? null;
  requests.push({ path: path.split("?")[0], ms: performance.now() - started, stages });
  if (requests.length > KEPT) {
    requests.shift();
  }
  listeners.forEach((listener) => listener());
}

async function refusal(response) {
  const text = await response.text();
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    // Not the searcher's own words: those of a proxy.
  }
  const retryMs = Number(response.headers.get("retry-after-ms") ?? 0);
  const message = error.message ?? `${response.status} ${response.statusText}`;
  return new Refused(message, response.status, error.status ?? "", retryMs);
}

/** Whole numbers that a number of JavaScript would round stay as they are written, where the browser can. */
function withAllDigits(_, value, context) {
  const isRounded = typeof value === "number" && /^-?[0-9]+$/.test(context?.source ?? "") && !Number.isSafeInteger(value);
  return isRounded && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

/** The text of a server's reply: to GET, or POST where there is a body of JSON. Throws `Refused`, or the `AbortError` of the signal. */
export async function exchange(url, { body, key: given, signal, unreachable }) {
  const headers = new Headers();
  if (given) {
    headers.set("Authorization", `Bearer ${given}`);
  }
  if (body !== undefined) {
    headers.set("Content-Type", "application/json");
  }
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  let response;
  try {
    response = await fetch(url, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body,
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    });
    if (response.ok) {
      return await response.text();
    }
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    const late = error.name === "TimeoutError";
    throw new Refused(late ? `no answer within ${DEADLINE_MS / 1000} s` : unreachable);
  }
  throw await refusal(response);
}

/** The reply of a route of the searcher, as of `exchange`. */
export async function ask(path, body = undefined, signal = undefined) {
  return (await askForText(path, body, signal)).reply;
}

/** The same, with the text of the reply. */
export async function askForText(path, body = undefined, signal = undefined) {
  const started = performance.now();
  const sent = body === undefined ? undefined : JSON.stringify(body);
  try {
    const text = await exchange(path, { body: sent, key: key(), signal, unreachable: "the searcher cannot be reached. Is it running?" });
    const reply = JSON.parse(text, withAllDigits);
    note(path, started, reply);
    return { reply, text };
  } catch (error) {
    if (error.code > 0) {
      note(path, started, null);
    }
    if (error.code === 401) {
      const detail = key() ? "The searcher does not know this API key." : "This searcher wants an API key.";
      window.dispatchEvent(new CustomEvent("key-wanted", { detail }));
    }
    throw error;
  }
}

let described = null;

/** Whether this searcher has a route, as its description of the API says: asking for one that is not there would be an error of the browser's. */
export async function hasRoute(path) {
  described ??= ask("v1/openapi.json").catch(() => ({ paths: {} }));
  return path in (await described).paths;
}

/** Counters of the searcher as text; none where they are not for this key. */
export async function counters() {
  const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
  const response = await fetch("metrics", { headers, cache: "no-store", signal: AbortSignal.timeout(DEADLINE_MS) }).catch(() => null);
  return response?.ok ? response.text() : null;
}

/** As `ask`; a refusal that passes is tried again, `attempts` times in all, after the time that the server gives. */
export async function askAgain(path, body, signal, attempts = 5) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask(path, body, signal);
    } catch (error) {
      if (!(error instanceof Refused) || (error.code !== 429 && error.code !== 503) || attempt === attempts) {
        throw error;
      }
      const wait = Math.max(error.retryMs, 50 * 2 ** attempt) * (1 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, wait));
      signal?.throwIfAborted();
    }
  }
}
