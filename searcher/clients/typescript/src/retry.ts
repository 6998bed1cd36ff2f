// Deadlines and retries of a call: which failures are retried, and when.
//
// A deadline covers all attempts. UNAVAILABLE and RESOURCE_EXHAUSTED are retried, and nothing else. Calls that change
// an index have names (`request_key`), by which the server makes each of them once, also where the connection was lost
// before its reply.
//
// Where a server says after which time it accepts a retry, a random wait follows that time, so that clients refused
// together do not come back together.

import type { Failure } from "./errors.js";

/** When a call is tried again. */
export interface RetryOptions {
  /** Attempts per call, the first one included; 1: no retries. 3 unless it is given. */
  attempts?: number;
  /** Milliseconds: the longest wait before the second attempt; doubles from there. 100 unless it is given. */
  firstWaitMs?: number;
  /** Milliseconds: the longest such wait, besides the time that a server asks for. 5000 unless it is given. */
  longestWaitMs?: number;
}

/** The longest deadline: a day. Timers of JavaScript end at 24 days. */
const LONGEST_TIMEOUT_MS = 86_400_000;

/** When a call is tried again, with every setting. */
export class RetryPolicy {
  readonly attempts: number;
  readonly firstWaitMs: number;
  readonly longestWaitMs: number;

  constructor({ attempts = 3, firstWaitMs = 100, longestWaitMs = 5000 }: RetryOptions = {}) {
    if (!Number.isInteger(attempts) || attempts < 1) {
      const expected = "`retry.attempts`: expected a whole number, at least 1";
      throw new RangeError(`${expected}, got ${attempts}. 1 makes no retries`);
    }
    for (const [name, value] of Object.entries({ firstWaitMs, longestWaitMs })) {
      if (!(Number.isFinite(value) && value >= 0)) {
        throw new RangeError(`\`retry.${name}\`: expected a finite number of milliseconds, at least 0, got ${value}`);
      }
    }
    this.attempts = attempts;
    this.firstWaitMs = firstWaitMs;
    this.longestWaitMs = longestWaitMs;
  }

  /** Milliseconds to wait after attempt `attempt` (from 1) has failed; undefined where it is not tried again. */
  waitMs(attempt: number, failure: Failure, isChange: boolean): number | undefined {
    if (attempt >= this.attempts) return undefined;
    const isLost = failure.code === "UNAVAILABLE";
    const isFull = failure.code === "RESOURCE_EXHAUSTED";
    // A change goes to a full server again only at the time that it has asked for.
    if (!isLost && !(isFull && (!isChange || failure.retryAfterMs !== undefined))) return undefined;
    const longestMs = Math.min(this.firstWaitMs * 2 ** (attempt - 1), this.longestWaitMs);
    return (failure.retryAfterMs ?? 0) + Math.random() * longestMs;
  }
}

/** A timeout that timers and servers accept. */
export function checkedTimeout(timeoutMs: number): number {
  if (!(timeoutMs > 0 && timeoutMs <= LONGEST_TIMEOUT_MS)) {
    const expected = `\`timeoutMs\`: expected milliseconds above 0 and at most ${LONGEST_TIMEOUT_MS}`;
    throw new RangeError(`${expected}, got ${timeoutMs}`);
  }
  return timeoutMs;
}

/** Milliseconds after which the headers of a reply allow another attempt; undefined where they do not say. */
export function retryAfterMs(headers: Headers): number | undefined {
  for (const [name, unitMs] of [["retry-after-ms", 1], ["retry-after", 1000]] as const) {
    const value = headers.get(name);
    // Dates, which `Retry-After` may have too, need clocks that agree.
    if (value !== null && /^\d{1,9}$/.test(value)) return Number(value) * unitMs;
  }
  return undefined;
}
