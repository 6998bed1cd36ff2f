// What a reply says besides its hits: stages, overlaps, and how it was made.

import { count, el, message, milliseconds, pairs, prose, some } from "./dom.js";
import { RANKINGS } from "./request.js";
import { meanings } from "./scores.js";

const STAGES = [
  ["queue_us", "queue"],
  ["tokenize_us", "tokenize"],
  ["embed_us", "embed"],
  ["dense_us", "dense"],
  ["bm25_us", "BM25"],
  ["filter_us", "filter"],
  ["fuse_us", "fuse"],
  ["fetch_us", "fetch"],
  ["rerank_us", "rerank"],
];

/** The stages of a search as a bar, with their times as text. */
export function stages(timings) {
  const all = STAGES.map(([field, label]) => ({ field, label, micros: timings[field] ?? 0 }));
  const spent = all.filter(({ micros }) => micros > 0);
  const sum = spent.reduce((total, one) => total + one.micros, 0) || 1;
  const bar = el("div", { class: "bar", "aria-hidden": "true" });
  for (const { field, micros } of spent) {
    const part = el("span", { class: `stage ${field}` });
    part.style.width = `${(100 * micros) / sum}%`;
    bar.append(part);
  }
  const texts = spent.map(({ field, label, micros }) =>
    el("li", {}, el("span", { class: `dot stage ${field}`, "aria-hidden": "true" }), `${label} ${milliseconds(micros)}`),
  );
  return el("div", { class: "stages" }, bar, el("ul", { "aria-label": "Time of each stage" }, texts));
}

function overlap(label, value) {
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("span", {}));
  meter.firstChild.style.width = `${100 * value}%`;
  return el("li", {}, el("span", {}, label), meter, el("span", {}, "overlap ", el("b", {}, value.toFixed(2))));
}

const FUSIONS = {
  FUSION_RRF: "reciprocal ranks",
  FUSION_WEIGHTED_SUM: "weighted sum of z-scores",
  FUSION_MIN_MAX: "weighted sum of scores in their bounds",
  FUSION_LOG_ODDS: "sum of log odds",
};

function filterRun(filter) {
  if (!filter) {
    return null;
  }
  const ways = [
    filter.scanned_shards && `${some(filter.scanned_shards, "shard")} scanned`,
    filter.graph_shards && `${some(filter.graph_shards, "graph")} searched`,
    filter.cached && "known from an earlier request",
  ];
  return [`${some(filter.documents, "document passes", "documents pass")}`, ...ways.filter(Boolean)].join(", ");
}

function searched({ documents, shards, missing_shards: missing, intact_documents: intact }) {
  const all = `${some(documents, "document")} in ${some(shards, "shard")}`;
  return missing?.length > 0 ? `${count(intact)} of ${all}; shards that were not: ${missing.map((one) => count(one.number)).join(", ")}` : all;
}

const LABELS = Object.fromEntries(RANKINGS.map(({ id, label }) => [id, label]));

/** All that a reply says of itself, of the rankings and the metric of a view. */
export function facts(reply, { ids, metric, documents }) {
  const compared = reply.comparison;
  const overlaps =
    compared &&
    el(
      "ul",
      { class: "overlaps", "aria-label": "Overlap of the rankings, from 0 to 1" },
      overlap("Dense, BM25", compared.overlap_dense_bm25),
      overlap("Dense, hybrid", compared.overlap_dense_hybrid),
      overlap("BM25, hybrid", compared.overlap_bm25_hybrid),
    );
  const fusion = FUSIONS[reply.fusion];
  const about = pairs([
    reply.index && ["Index", [el("b", {}, reply.index), `, generation ${count(reply.generation)}`]],
    [
      "Beam width (ef)",
      [el("b", {}, reply.ef ? count(reply.ef) : "no graph searched"), `, ${some(reply.distance_computations, "distance computation")}`],
    ],
    fusion && ["Fusion", `${fusion}, dense weight ${reply.dense_weight}`],
    reply.document_weight > 0 && ["Documents", `BM25 of passages with that of their documents, weight ${reply.document_weight}`],
    reply.reranked > 0 && ["Reranked", `the best ${count(reply.reranked)}, weight ${reply.rerank_weight}`],
    reply.query_tokens > 0 && ["Tokens read", `${count(reply.query_tokens)}${reply.query_truncated ? ", the question is longer" : ""}`],
    reply.coverage && ["Searched", searched(reply.coverage)],
    ["Filter", filterRun(reply.filter)],
  ]);
  const scores = el("div", { class: "meanings" }, pairs(meanings(ids, LABELS, reply.fusion, metric, documents)));
  const columns = el("div", { class: "about" }, reply.timings && stages(reply.timings), overlaps, about, scores);
  return [remarks(reply), columns];
}

/** What a reply remarks about how it was found, each a message: of no weight for who reads its hits. */
export function remarks(reply) {
  const far = reply.out_of_distribution_shards;
  return [
    reply.recall_note && message("note", prose(reply.recall_note, 500)),
    far > 0 && message("note", `The question is far from the documents of ${some(far, "shard")}: searched by beams of one width.`),
  ].filter(Boolean);
}

/** Warnings and notes of a reply, each a message. */
export function notes(reply) {
  return [
    reply.degraded && message("warning", el("b", {}, "Degraded: "), prose(reply.degraded_reason, 500)),
    ...(reply.notes ?? []).map((note) => message("note", prose(note, 500))),
  ];
}
