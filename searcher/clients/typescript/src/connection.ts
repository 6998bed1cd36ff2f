// `Connection`: where a server is, and calls with their deadline, attempts and errors.

import { type Failure, codeOfHttpStatus, errorOf } from "./errors.js";
import { parse, stringify } from "./json.js";
import { RetryPolicy, type RetryOptions, checkedTimeout, retryAfterMs } from "./retry.js";

/** Options of a client. */
export interface ClientOptions {
  /** Sent as `authorization: Bearer KEY`; never without TLS to another host. */
  apiKey?: string | undefined;
  /** Milliseconds for a call with all its attempts, where the call has none of its own. */
  timeoutMs?: number | undefined;
  /** When calls are tried again. */
  retry?: RetryOptions | undefined;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Options of a call. */
export interface CallOptions {
  /** Milliseconds for the call with all its attempts. */
  timeoutMs?: number | undefined;
  /** Ends the call, which then fails with `Cancelled`. */
  signal?: AbortSignal | undefined;
}

/** One call. */
export interface Call {
  /** Path with its query: `/v1/search`. */
  path: string;
  /** The message of a POST; a call without one is a GET. */
  body?: unknown;
  /** Whether it changes something; then it has a name. */
  isChange?: boolean;
}

/** What `fetch` of Node.js and Bun says where no connection was made; browsers do not tell. */
const UNSENT = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

const UNSENT_BY_DENO = /client error \(Connect\)/;

/** A server. */
export class Connection {
  readonly #server: string;
  readonly #headers: Record<string, string> = {};
  readonly #timeoutMs: number;
  readonly #retry: RetryPolicy;
  readonly #fetch: typeof fetch;

  constructor(url: string, timeoutMs: number, options: ClientOptions) {
    const server = checkedUrl(url);
    // Without the mark of an empty query or fragment, after which a path would be a part of it.
    this.#server = (server.origin + server.pathname).replace(/\/+$/, "");
    if (options.apiKey !== undefined) this.#headers["authorization"] = `Bearer ${checkedKey(options.apiKey, server)}`;
    this.#timeoutMs = checkedTimeout(options.timeoutMs ?? timeoutMs);
    this.#retry = new RetryPolicy(options.retry);
    // Browsers refuse a `fetch` that is called as a method of something else.
    const given = options.fetch ?? globalThis.fetch;
    this.#fetch = (input, init) => given(input, init);
  }

  /** Makes a call, and gives its reply. */
  async call(call: Call, { timeoutMs, signal }: CallOptions): Promise<unknown> {
    const endMs = performance.now() + checkedTimeout(timeoutMs ?? this.#timeoutMs);
    const isChange = call.isChange ?? false;
    const body = call.body === undefined ? undefined : stringify(call.body);
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await this.#attempt(call.path, body, endMs - performance.now(), signal);
      if ("reply" in outcome) return outcome.reply;
      const waitMs = this.#retry.waitMs(attempt, outcome, isChange);
      if (waitMs === undefined || waitMs >= endMs - performance.now()) {
        throw errorOf(this.#server, outcome, attempt, isChange);
      }
      if (!(await passed(waitMs, signal))) throw errorOf(this.#server, cancelled(signal), attempt, isChange);
    }
  }

  /** One attempt: its reply, or how it has failed. */
  async #attempt(
    path: string,
    body: string | undefined,
    leftMs: number,
    signal: AbortSignal | undefined,
  ): Promise<{ reply: unknown } | Failure> {
    if (signal?.aborted) return cancelled(signal);
    const controller = new AbortController();
    const abort = () => controller.abort();
    const timer = setTimeout(abort, Math.max(leftMs, 0));
    signal?.addEventListener("abort", abort, { once: true });
    const headers = { ...this.#headers, "x-request-timeout": String(Math.max(leftMs / 1000, 0.001)) };
    const message: RequestInit =
      body === undefined
        ? { method: "GET", headers }
        : { method: "POST", headers: { ...headers, "content-type": "application/json" }, body };
    try {
      // A redirect could take the call, and with it what it changes, to another server.
      const reply = await this.#fetch(this.#server + path, {
        ...message,
        signal: controller.signal,
        redirect: "manual",
      });
      return outcomeOf(reply, await reply.text());
    } catch (cause) {
      if (signal?.aborted) return cancelled(signal);
      if (controller.signal.aborted) return { code: "DEADLINE_EXCEEDED", detail: "the deadline passed", cause };
      return unavailable(cause);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

/** The reply that came, or the error that it tells. */
function outcomeOf(reply: Response, text: string): { reply: unknown } | Failure {
  const httpStatus = reply.status;
  if (reply.type === "opaqueredirect" || (httpStatus >= 300 && httpStatus < 400)) {
    const detail = "expected a reply, got a redirect. Give the address that it leads to";
    return { code: "UNIMPLEMENTED", detail, httpStatus };
  }
  let value: unknown;
  try {
    value = parse(text);
  } catch (cause) {
    const detail = "expected a reply in JSON, got other text";
    if (reply.ok) return { code: "INVALID_REPLY", detail, httpStatus, cause };
  }
  if (reply.ok) return { reply: value };
  const told = (value as { error?: { status?: unknown; message?: unknown } } | null | undefined)?.error;
  const isOfServer = typeof told?.status === "string" && typeof told.message === "string";
  return {
    code: isOfServer ? String(told.status) : codeOfHttpStatus(httpStatus),
    detail: isOfServer ? String(told.message) : `HTTP status ${httpStatus}${text ? `: ${text.slice(0, 200)}` : ""}`,
    httpStatus,
    retryAfterMs: retryAfterMs(reply.headers),
  };
}

/** The failure of a call that did not reach a server, or whose connection was lost. */
function unavailable(cause: unknown): Failure {
  const outer = (cause ?? {}) as { code?: unknown; message?: unknown; cause?: unknown };
  const inner = (outer.cause ?? {}) as { code?: unknown; message?: unknown };
  // Of Node.js the second has what happened, of Bun the first.
  const reasons = [outer.message ?? cause, inner.message || inner.code].filter(Boolean).map(String);
  const detail = reasons.join(": ");
  const unsent = [outer.code, inner.code].some((code) => UNSENT.has(String(code))) || UNSENT_BY_DENO.test(detail);
  return { code: "UNAVAILABLE", detail, unsent, cause };
}

function cancelled(signal: AbortSignal | undefined): Failure {
  const reason: unknown = signal?.reason;
  return { code: "CANCELLED", detail: reason instanceof Error ? reason.message : String(reason), cause: reason };
}

/** Waits; false where the signal came first. */
function passed(waitMs: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve(!signal?.aborted);
    };
    const timer = setTimeout(end, waitMs);
    signal?.addEventListener("abort", end, { once: true });
    if (signal?.aborted) end();
  });
}

function checkedUrl(url: string): URL {
  // The message does not repeat it: it may hold a password.
  const expected = "`url`: expected http://HOST:PORT or https://HOST:PORT, without user, query and fragment";
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new TypeError(`${expected}, got text that is no URL`);
  }
  if (!["http:", "https:"].includes(parsed.protocol)) {
    throw new TypeError(`${expected}, got the scheme ${parsed.protocol}`);
  }
  if (parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new TypeError(`${expected}, got one of these for ${parsed.host}. Give a key as \`apiKey\``);
  }
  return parsed;
}

function checkedKey(key: string, server: URL): string {
  // None of these messages may hold the key.
  if (typeof key !== "string" || !/^[\x21-\x7e]+$/.test(key)) {
    const expected = "`apiKey`: expected visible ASCII characters without spaces";
    throw new TypeError(`${expected}, got others or none. Strip line ends`);
  }
  const isLoopback = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(server.hostname);
  if (server.protocol !== "https:" && !isLoopback) {
    const expected = "`apiKey`: expected TLS for a host other than this one";
    throw new TypeError(`${expected}, got ${server.origin}. Give an https:// address`);
  }
  return key;
}
