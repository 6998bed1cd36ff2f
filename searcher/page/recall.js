// The recall tab: what the graph finds of what an exact search finds, for questions made of sampled documents.

import { askAgain } from "./api.js";
import { announce, byId, count, cut, el, fill, message, milliseconds, prose, quantile, some, table } from "./dom.js";
import { inParallel } from "./parallel.js";
import { plot } from "./plot.js";
import { go } from "./state.js";

const WIDTHS = [16, 32, 64, 128, 256, 512];
const K = 10;
const QUESTION = 300;

/** A document's title, or the first sentence of its text. */
export function questionOf({ title, text }) {
  const words = (title.trim() || text.trim().slice(0, 2 * QUESTION)).replace(/\s+/g, " ");
  const sentence = title.trim() ? words : (words.match(/^.*?[.!?…。！？](?=\s|$)/u)?.[0] ?? words);
  return cut(sentence, QUESTION).trim();
}

/** Why fewer questions are asked than documents were wanted; empty where as many are. */
export function why(wanted, sample, asked) {
  const documents = sample.documents.length;
  const equal = documents - asked;
  return [
    documents < wanted && `The index has ${some(documents, "document")}.`,
    equal > 0 &&
      `${some(asked, "question")} of ${some(documents, "document")}: ${count(equal)} had no text, or the title or first sentence of another.`,
  ]
    .filter(Boolean)
    .join(" ");
}

const keysOf = (reply) => reply.hits.map((hit) => hit.key);

/** Recall and cost of each width, of the questions that were answered at it. */
export function summary(measured) {
  return WIDTHS.map((ef) => {
    const answered = measured.filter((one) => one.exact && one.graph.has(ef));
    const recalls = answered.map(({ exact, graph }) => {
      const found = new Set(keysOf(graph.get(ef)));
      const wanted = keysOf(exact);
      return wanted.length ? wanted.filter((key) => found.has(key)).length / wanted.length : 1;
    });
    const times = answered.map(({ graph }) => graph.get(ef).timings.dense_us);
    const work = answered.map(({ graph }) => graph.get(ef).distance_computations);
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    return {
      ef,
      questions: answered.length,
      recall: mean(recalls),
      whole: recalls.filter((recall) => recall === 1).length,
      median: quantile(times, 0.5),
      p99: quantile(times, 0.99),
      work: mean(work),
    };
  }).filter((one) => one.questions > 0);
}

function results(measured) {
  const rows = summary(measured);
  const exact = measured.filter((one) => one.exact).map((one) => one.exact.timings.dense_us);
  const work = measured.find((one) => one.exact)?.exact.distance_computations;
  if (rows.length === 0) {
    return el("p", { class: "empty" }, "No question was answered yet.");
  }
  const cells = rows.map((row) => [
    count(row.ef),
    row.recall.toFixed(4),
    `${count(row.whole)} of ${count(row.questions)}`,
    milliseconds(row.median),
    milliseconds(row.p99),
    count(row.work),
  ]);
  cells.push([
    "exact",
    "1.0000",
    `${count(exact.length)} of ${count(exact.length)}`,
    milliseconds(quantile(exact, 0.5)),
    milliseconds(quantile(exact, 0.99)),
    count(work),
  ]);
  const times = rows.map((row) => [row.ef, row.median / 1000]);
  const all = rows.map((row) => [row.ef, quantile(exact, 0.5) / 1000]);
  return [
    el(
      "div",
      { class: "plots" },
      plot({
        label: "Recall at 10 by beam width",
        x: "beam width (ef)",
        y: "recall@10",
        series: [{ name: "recall@10", class: "dense", points: rows.map((row) => [row.ef, row.recall]) }],
        format: (value) => value.toFixed(3),
        least: 0.9,
        most: 1,
      }),
      plot({
        label: "Median time of the dense search by beam width",
        x: "beam width (ef)",
        y: "ms, median",
        series: [
          { name: "graph", class: "dense", points: times },
          { name: "exact", class: "bm25", points: all },
        ],
        format: (value) => value.toFixed(2),
        least: 0,
      }),
    ),
    table("Graph against exact search", ["Beam width (ef)", "Recall@10", "All 10 found", "Median", "p99", "Distance computations"], cells),
  ];
}

/** The recall tab; the returned function shows a state. */
export function recallTab(indexes) {
  const [form, size, seed, bar, said, shown, stop] = [
    ...["recall-form", "recall-n", "recall-seed", "recall-progress", "recall-said", "recall-results", "recall-stop"],
  ].map(byId);
  let running = null;
  let measuredIndex = null;
  // Why there are fewer questions than documents were wanted.
  let fewer = "";

  const measure = async (state, own) => {
    const index = state.index ? { index: state.index } : {};
    const wanted = { count: Number(size.value), seed: Number(seed.value), fields: ["title", "text"], ...index };
    const sample = await askAgain("v1/documents/sample", wanted, own.signal);
    const questions = [...new Set(sample.documents.map(questionOf))].filter(Boolean);
    if (questions.length === 0) {
      throw new Error("the sampled documents have neither titles nor texts to make questions of");
    }
    fewer = why(wanted.count, sample, questions.length);
    const measured = questions.map((query) => ({ query, exact: null, graph: new Map() }));
    const search = (query, how) =>
      askAgain("v1/search", { query, mode: "MODE_DENSE", k: K, keys_only: true, ...how, ...index }, own.signal);
    const jobs = measured.flatMap((one) => [
      async () => (one.exact = await search(one.query, { exact: true })),
      ...WIDTHS.map((ef) => async () => one.graph.set(ef, await search(one.query, { ef }))),
    ]);
    bar.max = jobs.length;
    const step = () => {
      if (own.signal.aborted) {
        return;
      }
      bar.value += 1;
      said.textContent = `${count(bar.value)} of ${count(jobs.length)} searches, ${count(questions.length)} questions`;
      if (bar.value % 50 === 0) {
        fill(shown, results(measured));
      }
    };
    try {
      await inParallel(jobs, own.signal, step);
    } finally {
      if (running === own) {
        fill(shown, results(measured), examples(questions));
      }
    }
  };

  const run = async (state) => {
    running?.abort();
    const own = new AbortController();
    running = own;
    form.classList.add("running");
    stop.disabled = false;
    bar.hidden = false;
    bar.removeAttribute("value");
    bar.value = 0;
    fewer = "";
    said.textContent = "Sampling documents …";
    fill(shown);
    try {
      await measure(state, own);
      said.textContent = `Done: ${count(bar.max)} searches. ${fewer}`;
    } catch (error) {
      if (running !== own) {
        // Another index is shown.
      } else if (own.signal.aborted) {
        said.textContent = "Stopped.";
      } else {
        own.abort();
        said.textContent = "Failed.";
        shown.prepend(message("error", prose(error.message, 1000)));
      }
    } finally {
      if (running === own) {
        stop.disabled = true;
        bar.hidden = true;
        form.classList.remove("running");
        announce(said.textContent);
      }
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go({ n: size.value, seed: seed.value }, true);
    measuredIndex = byId("index").value;
    run({ index: measuredIndex });
  });
  stop.addEventListener("click", () => running?.abort());

  return (state) => {
    size.value = state.n;
    seed.value = state.seed;
    const index = indexes().find((one) => (state.index ? one.name === state.index : one.is_default));
    const hasTower = index?.has_question_tower ?? true;
    if (measuredIndex !== null && index?.name !== measuredIndex) {
      // What is shown is of another index.
      running?.abort();
      running = null;
      measuredIndex = null;
      [stop.disabled, bar.hidden] = [true, true];
      fill(shown);
      said.textContent = "";
    }
    byId("recall-start").disabled = !hasTower;
    byId("recall-no-tower").hidden = hasTower;
  };
}

function examples(questions) {
  const list = el(
    "ol",
    {},
    questions.slice(0, 20).map((question) => el("li", { dir: "auto" }, prose(question, 160))),
  );
  return el("details", {}, el("summary", {}, `Some of the ${count(questions.length)} questions`), list);
}
