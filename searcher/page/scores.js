// What a score is called, how it compares with the best of the page, and when it says that a hit is weak.

import { el } from "./dom.js";

const FUSED = {
  FUSION_LOG_ODDS: {
    name: "log odds",
    digits: 2,
    meaning: "Evidence of both rankings, in natural logarithms of odds: 3 less is about a twentieth of the odds.",
  },
  FUSION_WEIGHTED_SUM: {
    name: "z-score",
    digits: 2,
    meaning: "Standard deviations above the lowest score, weighted. To be compared within one question.",
  },
  FUSION_MIN_MAX: { name: "of 1", digits: 4, meaning: "Both scores within their bounds, from 0 to 1: means the same for all questions." },
  FUSION_RRF: { name: "ranks", digits: 4, meaning: "Sum of reciprocal ranks: says nothing about how well a text matches." },
};
const METRICS = {
  METRIC_COSINE: { name: "cosine", digits: 4, meaning: "From -1 to 1. What is high depends on the model." },
  METRIC_DOT: { name: "inner product", digits: 4, meaning: "Of vectors of any length. What is high depends on the model." },
};
const BM25 = {
  name: "BM25",
  digits: 2,
  meaning: "Sum over the words of the question that the text has. To be compared within one question.",
};
const OTHER = { name: "score", digits: 4, meaning: "In the unit of the ranking." };

/** The scale of a ranking's scores. A hybrid ranking of one ranking alone has that one's. */
export function scaleOf(ranking, fusion, metric) {
  if (ranking === "bm25") {
    return BM25;
  }
  return (ranking === "dense" ? METRICS[metric] : FUSED[fusion]) ?? OTHER;
}

/**
 * Evidence below which a hit of log odds is called weak: that which it takes to choose one of so many documents, if all are as likely before. None on other
 * scales, which say nothing of the kind.
 */
export function weakBelow(scale, documents) {
  return scale === FUSED.FUSION_LOG_ODDS && documents > 1 ? Math.log(documents) : null;
}

/** A score with its name, its bar, and words. */
export function scoreOf({ score, rerank }, { scale, best, weakest }) {
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("span", {}));
  meter.firstChild.style.width = `${Math.max(0, Math.min(100, (100 * score) / best))}%`;
  const isWeak = weakest !== null && score < weakest;
  return el(
    "span",
    { class: "scores", title: scale.meaning },
    el("span", { class: "score" }, score.toFixed(scale.digits)),
    ` ${scale.name}`,
    score >= 0 && best > 0 && meter,
    rerank && ` · reranked ${rerank.score.toFixed(2)}`,
    isWeak && el("span", { class: "weak" }, "weak match"),
  );
}

/** What the scores of rankings mean, each a pair. */
export function meanings(ids, labels, fusion, metric, documents) {
  return ids.map((id) => {
    const scale = scaleOf(id, fusion, metric);
    const weakest = weakBelow(scale, documents);
    const weak =
      weakest !== null && ` Below ${weakest.toFixed(1)}, the logarithm of the number of documents, a hit is called a weak match.`;
    return [`Score of ${labels[id]}`, `${scale.name}. ${scale.meaning}${weak || ""}`];
  });
}
