// What the searcher's own counters say of its load: searches a second, and how long they took, of all of its clients.

import { counters } from "./api.js";
import { count, el, pairs } from "./dom.js";

const CALLS = { "Searcher.Search": "Searches", "Searcher.SearchBatch": "Batches", "Searcher.SearchStream": "Streams" };
const SERIES = /^dyad_searcher_request_seconds_(count|bucket)\{([^}]*)\} ([0-9.e+]+)/;

/** Counts of calls, and their buckets [seconds, calls], by name. */
export function read(text) {
  const calls = new Map();
  for (const line of text.split("\n")) {
    const [, kind, labels, value] = SERIES.exec(line) ?? [];
    const call = /call="([^"]*)"/.exec(labels ?? "")?.[1];
    if (!(call in CALLS)) {
      continue;
    }
    const one = calls.get(call) ?? { count: 0, buckets: [] };
    calls.set(call, one);
    if (kind === "count") {
      one.count = Number(value);
    } else {
      const end = /le="([^"]*)"/.exec(labels)[1];
      one.buckets.push([end === "+Inf" ? Infinity : Number(end), Number(value)]);
    }
  }
  return calls;
}

/** The end of the bucket that holds a share of the calls: they took at most that long. */
export function within(buckets, share) {
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  const all = sorted.at(-1)?.[1] ?? 0;
  return all ? sorted.find(([, calls]) => calls >= share * all)[0] : null;
}

const upTo = (seconds) => (seconds === Infinity ? "more than 13 s" : `at most ${Number((1000 * seconds).toPrecision(3))} ms`);

// Readings of the last minutes; a rate is of a second at least.
const readings = [];
const KEPT = 60;
const LEAST_MS = 1000;

/** The counters as pairs; what is a rate is of the time since an earlier reading. */
export async function traffic() {
  const text = await counters();
  if (text === null) {
    return el("p", { class: "empty" }, "The searcher does not tell its counters here.");
  }
  const now = { at: performance.now(), calls: read(text) };
  const last = readings.findLast(({ at }) => now.at - at >= LEAST_MS);
  readings.push(now);
  if (readings.length > KEPT) {
    readings.shift();
  }
  const rows = [...now.calls]
    .filter(([, { count }]) => count > 0)
    .flatMap(([call, one]) => {
      const earlier = last?.calls.get(call);
      const seconds = last ? (now.at - last.at) / 1000 : 0;
      const rate = last
        ? `, ${((one.count - (earlier?.count ?? 0)) / seconds).toFixed(1)} a second in the last ${seconds.toFixed(0)} s`
        : "";
      return [
        [CALLS[call], `${count(one.count)}${rate}`],
        ["Half of them took", upTo(within(one.buckets, 0.5))],
        ["99 % of them took", upTo(within(one.buckets, 0.99))],
      ];
    });
  return [
    el("p", { class: "hint" }, "Of all clients and indexes, since the searcher was started."),
    rows.length ? pairs(rows) : el("p", {}, "No search yet."),
  ];
}
