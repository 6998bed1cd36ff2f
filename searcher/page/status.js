// The status tab: model, generations, memory, leaves, debt, what the shards have measured, and the times of this page's own requests.

import { ask, onRequest, requests } from "./api.js";
import { byId, bytes, count, el, fill, message, name, pairs, prose, quantile, some, table } from "./dom.js";
import { stages } from "./facts.js";
import { leaves } from "./leaves.js";
import { indexerOf } from "./places.js";
import { plot } from "./plot.js";
import { grpcAddress } from "./settings.js";
import { traffic } from "./traffic.js";

const SHARDS = 100;
const GENERATIONS = 20;
// How the index compares vectors.
const METRICS = { METRIC_COSINE: "cosine", METRIC_DOT: "inner product", METRIC_L2: "L2" };

function part(title, ...children) {
  return el("section", { class: "part" }, el("h3", {}, title), children);
}

function model(title, info, fingerprint) {
  if (!info) {
    return [title, "none"];
  }
  const same = fingerprint === undefined || fingerprint === info.fingerprint;
  return [
    title,
    [
      el("b", {}, prose(info.name, 200)),
      info.dim > 0 && ` ${count(info.dim)} values, ${METRICS[info.metric] ?? info.metric},`,
      ` ${count(info.max_tokens)} tokens`,
      el("br"),
      el("code", { class: "fingerprint", title: info.fingerprint }, name(info.fingerprint, 200)),
      !same && el("span", { class: "bad" }, " another model than the index's"),
    ],
  ];
}

function warnings(status, info) {
  const all = [
    ["The index's directory", status.index_error],
    ["The question tower", status.question_tower_error],
    ["The cross encoder", status.reranker_error],
    ["Degraded", info?.degraded_reason],
  ];
  return all.filter(([, text]) => text).map(([what, text]) => message("warning", el("b", {}, `${what}: `), prose(text, 1000)));
}

function rollback({ previous_generation: previous, leaves }) {
  if (!previous) {
    return "no earlier generation is on disk";
  }
  // A root does not move the pointer that its leaves follow.
  return `to generation ${count(previous)}${leaves?.length > 0 ? " by dyad-indexer rollback, which leaves follow" : ""}`;
}

function about(status) {
  const last = status.generations.slice(-GENERATIONS);
  const earlier = status.generations.length - last.length;
  const date = new Date(1000 * status.created_unix_s);
  const isKnown = !Number.isNaN(date.getTime());
  const published = isKnown ? `${date.toLocaleString("en-GB", { timeZone: "UTC" })} UTC` : "at an unknown time";
  return part(
    "Index",
    pairs([
      ["Name", name(status.name)],
      ["Directory", el("code", {}, name(status.index, 400))],
      ["Documents", count(status.documents)],
      ["Generation", `${count(status.generation)}, published ${published}`],
      status.generations.length > 1 && [
        "Generations on disk",
        `${earlier > 0 ? `${count(earlier)} earlier, ` : ""}${last.map(count).join(", ")}`,
      ],
      ["Rollback", rollback(status)],
      model("Model of the index", status.index_model),
      model("Question tower", status.question_model, status.index_model?.fingerprint),
      status.reranker && model("Cross encoder", status.reranker),
      ["Searcher", `version ${status.version}, revision ${status.revision}`],
      ["gRPC", el("code", {}, name(grpcAddress()))],
      ["Changes", indexerOf(status.name) && el("code", {}, name(indexerOf(status.name)))],
    ]),
  );
}

function memory({ limit, limit_source, needed, anonymous, file, index_hot, index_cold }) {
  const most = Math.max(limit, needed, anonymous + file, index_hot + index_cold) || 1;
  const row = (label, value, note) => {
    const bar = el("span", { class: "meter", "aria-hidden": "true" }, el("span", {}));
    bar.firstChild.style.width = `${(100 * value) / most}%`;
    return el("li", {}, el("span", {}, label), bar, el("b", {}, bytes(value)), note && el("small", {}, prose(note, 200)));
  };
  return part(
    "Memory",
    el(
      "ul",
      { class: "meters" },
      limit > 0 ? row("Limit", limit, limit_source) : el("li", {}, el("span", {}, "Limit"), "none"),
      row("Needed at most", needed, "all indexes, caches and replies when they are full"),
      row("Anonymous now", anonymous, "of the searcher"),
      row("Files now", file, "mapped pages that are in memory"),
      row("Hot files of the index", index_hot, "graphs and codes, which nearly every search reads"),
      row("Cold files of the index", index_cold, "vectors, keys, texts"),
    ),
  );
}

const share = (some, all) => (all > 0 ? `${((100 * some) / all).toFixed(1)} %` : "–");

function shards(status) {
  const sum = (field) => status.shards.reduce((total, shard) => total + shard[field], 0);
  const [live, deleted] = [sum("documents"), sum("deleted")];
  const isRoot = (status.leaves ?? []).length > 0;
  const row = (id, { documents, deleted, dense_bytes, text_bytes, leaves: holders }) => [
    id,
    ...(isRoot ? [holders === undefined ? "" : count(holders)] : []),
    count(documents),
    count(deleted),
    share(deleted, documents + deleted),
    bytes(dense_bytes),
    bytes(text_bytes),
  ];
  const rows = status.shards.slice(0, SHARDS).map((shard) => row(el("code", {}, name(shard.id)), shard));
  rows.push(row("all", { documents: live, deleted, dense_bytes: sum("dense_bytes"), text_bytes: sum("text_bytes") }));
  const held = `${some(deleted, "deleted document is", "deleted documents are")} still in the files: ${share(deleted, live + deleted)}`;
  const debt = deleted > 0 ? `${held}. dyad-indexer merge removes them.` : "No deleted document is in the files.";
  const heads = ["Shard", ...(isRoot ? ["Leaves"] : []), "Documents", "Deleted", "Share deleted", "Vectors and graph", "Text"];
  return part(
    "Shards",
    el("p", {}, debt),
    table("Documents and bytes", heads, rows),
    rows.length <= status.shards.length && el("p", {}, `The first ${count(SHARDS)} of ${count(status.shards.length)} shards.`),
  );
}

const optional = (value) => (value === null || value === undefined ? "–" : value.toFixed(4));

function certificate({ id, certificate: measured }) {
  if (!measured?.recall?.length) {
    return el("p", { class: "empty" }, "This shard has measured nothing.");
  }
  const lines = [{ name: "no filter", caption: "Without a filter", measured: measured.recall }];
  for (const one of measured.filtered ?? []) {
    const part = `1/${count(1 / one.share)}`;
    lines.push({ name: `filter of ${part}`, caption: `Through filters that allow ${part} of the documents`, measured: one.recall });
  }
  const series = (value) =>
    lines.map((one, at) => ({ name: one.name, class: `series-${at}`, points: one.measured.map((point) => [point.ef, value(point)]) }));
  const recalls = series((point) => point.recall_at_10);
  const costs = series((point) => point.distance_computations);
  const heads = ["Beam width (ef)", "Recall@10", "Recall@100", "Distance computations", "By int8 rows or vectors"];
  const tables = lines.map((one) => {
    const row = (point) => [
      count(point.ef),
      point.recall_at_10.toFixed(4),
      optional(point.recall_at_100),
      count(point.distance_computations),
      count(point.scored),
    ];
    return table(one.caption, heads, one.measured.map(row));
  });
  const way = measured.by_questions ? "questions that the build was given" : "documents of the shard, each searched for among the others";
  const x = "beam width (ef)";
  return [
    el("p", {}, "Shard ", el("code", {}, name(id)), `: measured with ${count(measured.queries)} ${way}.`),
    el(
      "div",
      { class: "plots" },
      plot({
        label: "Recall at 10 by beam width",
        x,
        y: "recall@10",
        series: recalls,
        format: (value) => value.toFixed(3),
        least: 0.9,
        most: 1,
      }),
      plot({ label: "Distance computations by beam width", x, y: "computations", series: costs, format: count, least: 0 }),
    ),
    tables,
  ];
}

function certificates(status) {
  const body = el("div", {});
  const shown = status.shards.slice(0, SHARDS);
  const choose = el("select", { id: "shard", change: (event) => fill(body, certificate(shown[Number(event.target.value)])) });
  shown.forEach((shard, at) => choose.append(el("option", { value: at }, shard.id)));
  if (shown.length) {
    fill(body, certificate(shown[0]));
  }
  return part("Certificate", shown.length > 1 && el("p", {}, el("label", { for: "shard" }, "Shard "), choose), body);
}

/** Times of this page's requests, by route. */
function latency() {
  const routes = new Map();
  for (const { path, ms } of requests) {
    routes.set(path, [...(routes.get(path) ?? []), ms]);
  }
  const ms = (value) => `${value.toFixed(1)} ms`;
  const rows = [...routes].map(([path, times]) => [
    el("code", {}, `/${path}`),
    count(times.length),
    ms(quantile(times, 0.5)),
    ms(quantile(times, 0.99)),
    ms(times.at(-1)),
  ]);
  const last = requests.findLast((one) => one.stages);
  return [
    rows.length ? table("As the browser sees them", ["Route", "Requests", "p50", "p99", "Last"], rows) : el("p", {}, "None yet."),
    last && [el("p", {}, "Stages of the last search:"), stages(last.stages)],
  ];
}

/** The status tab; the returned function shows a state, and asks again where it was hidden before. */
export function statusTab(indexes) {
  const [body, times] = ["status-body", "status-latency"].map(byId);
  let shown = null;
  let running = null;

  const load = async (index) => {
    running?.abort();
    const own = new AbortController();
    running = own;
    body.setAttribute("aria-busy", "true");
    if (!body.hasChildNodes()) {
      fill(body, el("p", { class: "loading" }, "Loading …"));
    }
    try {
      const status = await ask(`v1/status${index ? `?index=${encodeURIComponent(index)}` : ""}`, undefined, own.signal);
      traffic().then((said) => fill(byId("status-traffic"), said));
      const info = indexes().find((one) => one.name === status.name);
      fill(
        body,
        warnings(status, info),
        el("div", { class: "parts" }, about(status), memory(status.memory)),
        leaves(status),
        shards(status),
        certificates(status),
      );
    } catch (error) {
      if (error.name !== "AbortError") {
        fill(body, message("error", prose(error.message, 1000)));
      }
    } finally {
      if (running === own) {
        body.setAttribute("aria-busy", "false");
      }
    }
  };

  onRequest(() => {
    if (shown !== null) {
      fill(times, latency());
    }
  });
  byId("status-refresh").addEventListener("click", () => load(shown ?? ""));
  return (state) => {
    const wanted = state.tab === "status" ? state.index : null;
    if (wanted !== null && wanted !== shown) {
      shown = wanted;
      fill(times, latency());
      load(wanted);
    }
    shown = wanted;
  };
}
