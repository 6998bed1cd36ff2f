// The quality tab: how well each mode answers judged questions, and which questions it does not.

import { ask, askAgain } from "./api.js";
import { announce, byId, count, el, fill, message, milliseconds, prose, quantile, some, table } from "./dom.js";
import { judgedOf, keep, spread } from "./judged.js";
import { mean, measured } from "./measures.js";
import { inParallel } from "./parallel.js";
import { DOCUMENT } from "./request.js";
import { link } from "./state.js";

const K = 10;
const RERANKED = 20;
const SHOWN = 50;
// Keys in one request for documents.
const KEYS = 500;

/** The modes that an index can be asked in here. */
function modesOf(hasTower, hasReranker) {
  const bm25 = { id: "bm25", label: "BM25", request: { mode: "MODE_BM25" } };
  const hybrid = { id: "hybrid", label: "Hybrid", request: { mode: "MODE_HYBRID" } };
  if (!hasTower) {
    return [bm25];
  }
  const reranked = { id: "reranked", label: "Hybrid, reranked", request: { mode: "MODE_HYBRID", rerank_depth: RERANKED } };
  return [{ id: "dense", label: "Dense", request: { mode: "MODE_DENSE" } }, bm25, hybrid, ...(hasReranker ? [reranked] : [])];
}

const keyOf = (hit) => {
  const value = hit.group?.value;
  return String(value?.text ?? value?.number ?? value?.integer ?? hit.key);
};

/** Time of a search without that of embedding its question, which only the first mode needs: the others have it from the cache. */
function searchMicros(timings) {
  return ["dense_us", "bm25_us", "filter_us", "fuse_us", "fetch_us", "rerank_us"].reduce((sum, stage) => sum + (timings[stage] ?? 0), 0);
}

/** Relevant keys that the index does not hold. */
async function missingKeys(questions, index, signal) {
  const keys = [...new Set(questions.flatMap(({ gains }) => [...gains.keys()]))].filter((key) => key.trim());
  let missing = 0;
  for (let at = 0; at < keys.length; at += KEYS) {
    const wanted = { keys: keys.slice(at, at + KEYS), fields: ["title"], ...index };
    missing += (await askAgain("v1/documents", wanted, signal)).missing.length;
  }
  return missing > 0 ? `${count(missing)} of ${some(keys.length, "relevant key")} are not in this index.` : "";
}

function means(modes, answered) {
  const rows = modes.map(({ id, label }) => {
    const all = answered.map((one) => one.by.get(id));
    const missed = all.filter(({ place }) => place === 0).length;
    const times = all.map(({ micros }) => micros);
    const figures = ["mrr", "ndcg", "recall"].map((field) => mean(all, field).toFixed(4));
    return [label, ...figures, count(missed), milliseconds(quantile(times, 0.5) ?? 0)];
  });
  return table(
    `Means over ${some(answered.length, "question")}`,
    ["Mode", "MRR@10", "nDCG@10", "Recall@10", "Missed", "Median time without embedding"],
    rows,
  );
}

function list(title, explained, questions, modes) {
  const place = (one, { id }) =>
    el("span", { class: `place ${id}` }, `${modes.find((mode) => mode.id === id).label} ${one.by.get(id).place || "–"}`);
  const items = questions.slice(0, SHOWN).map((one) =>
    el(
      "li",
      {},
      el("a", { href: link({ tab: "search", q: one.query, page: "1", doc: "", explain: "" }), dir: "auto" }, prose(one.query, 200)),
      el(
        "span",
        { class: "places" },
        modes.map((mode) => place(one, mode)),
      ),
    ),
  );
  const rest = questions.length > SHOWN && el("p", { class: "hint" }, `The first ${count(SHOWN)} of ${count(questions.length)}.`);
  return el(
    "details",
    { open: questions.length > 0 && questions.length <= SHOWN },
    el("summary", {}, `${title}: ${count(questions.length)}`),
    el("p", { class: "hint" }, explained),
    el("ol", { class: "judged" }, items),
    rest,
  );
}

function results(modes, answered) {
  if (answered.length === 0) {
    return el("p", { class: "empty" }, "No question was answered yet.");
  }
  const last = modes.at(-1);
  const missed = answered.filter((one) => one.by.get(last.id).place === 0);
  const others = modes.slice(0, -1);
  const loss = (one) => Math.max(...others.map(({ id }) => one.by.get(id).ndcg)) - one.by.get(last.id).ndcg;
  const worse = answered.filter((one) => others.length && !missed.includes(one) && loss(one) > 1e-9).sort((a, b) => loss(b) - loss(a));
  const places = "Numbers are places of the first relevant document.";
  return [
    means(modes, answered),
    list(`Missed by ${last.label}`, `No relevant document is among its first ${K}. ${places}`, missed, modes),
    others.length > 0 &&
      list(`Worse with ${last.label}`, `Another mode has the greater nDCG@10, those with the greatest loss first. ${places}`, worse, modes),
  ];
}

/** The quality tab; the returned function shows a state. */
export function qualityTab(indexes) {
  const names = ["form", "files", "most", "group", "questions", "qrels", "progress", "said", "results", "stop"];
  const [form, files, most, group, pasted, qrels, bar, said, shown, stop] = names.map((name) => byId(`quality-${name}`));
  let running = null;
  let shownIndex;

  const measure = async (state, signal) => {
    const texts = await Promise.all([...files.files].map((file) => file.text()));
    const { questions: all, left } = judgedOf([...texts, pasted.value, qrels.value]);
    if (all.length === 0) {
      throw new Error("No judged question was found in the files or in what was pasted.");
    }
    const questions = spread(all, Number(most.value));
    const index = state.index ? { index: state.index } : {};
    const status = await ask(`v1/status${state.index ? `?index=${encodeURIComponent(state.index)}` : ""}`, undefined, signal);
    const groups = group.checked ? { group_by: { field: DOCUMENT } } : {};
    const info = indexes().find((one) => one.name === status.name);
    const modes = modesOf(info?.has_question_tower ?? true, Boolean(status.reranker) && !group.checked);
    keep(questions);
    const lost = group.checked ? "" : await missingKeys(questions, index, signal);
    const said = [
      all.length > questions.length && `${count(questions.length)} of ${count(all.length)} questions are asked.`,
      ...left,
      lost,
    ];
    const sentences = said.filter(Boolean).join(" ");
    const about = sentences && message("note", sentences);
    const answered = [];
    bar.max = questions.length;
    const jobs = questions.map(({ query, gains }) => async () => {
      const by = new Map();
      for (const { id, request } of modes) {
        const reply = await askAgain("v1/search", { query, k: K, keys_only: true, ...request, ...groups, ...index }, signal);
        by.set(id, { ...measured(reply.hits.map(keyOf), gains, K), micros: searchMicros(reply.timings) });
      }
      answered.push({ query, by });
    });
    const step = () => {
      if (!signal.aborted) {
        bar.value = answered.length;
        tell(`${count(answered.length)} of ${some(questions.length, "question")}`);
      }
    };
    try {
      await inParallel(jobs, signal, step);
    } finally {
      if (running?.signal === signal) {
        fill(shown, about, results(modes, answered));
      }
    }
    return `Done: ${some(answered.length, "question")} in ${some(modes.length, "mode")}.`;
  };
  const tell = (text) => (said.textContent = text);
  const rest = () => {
    running?.abort();
    running = null;
    stop.disabled = true;
    bar.hidden = true;
  };

  const run = async (state) => {
    rest();
    const own = new AbortController();
    running = own;
    stop.disabled = false;
    bar.hidden = false;
    bar.value = 0;
    tell("Reading the questions …");
    fill(shown);
    try {
      tell(await measure(state, own.signal));
    } catch (error) {
      if (running === own) {
        tell(own.signal.aborted ? "Stopped." : "Failed.");
        if (!own.signal.aborted) {
          own.abort();
          shown.prepend(message("error", prose(error.message, 1000)));
        }
      }
    } finally {
      if (running === own) {
        stop.disabled = true;
        bar.hidden = true;
        announce(said.textContent);
      }
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run({ index: shownIndex });
  });
  stop.addEventListener("click", () => running?.abort());

  return (state) => {
    if (shownIndex !== undefined && state.index !== shownIndex) {
      // What is shown is of another index.
      rest();
      fill(shown);
      tell("");
    }
    shownIndex = state.index;
  };
}
