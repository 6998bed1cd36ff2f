// Measures of a ranking against judged documents, as trec_eval has them: gains as they are, 0 for what is not judged.

const discount = (at) => 1 / Math.log2(at + 2);

/** MRR, nDCG and recall of the first `k` keys, and the place of the first relevant one, 0 where there is none. */
export function measured(keys, gains, k) {
  const first = keys.slice(0, k);
  const place = first.findIndex((key) => gains.has(key)) + 1;
  const got = first.reduce((sum, key, at) => sum + (gains.get(key) ?? 0) * discount(at), 0);
  const best = [...gains.values()]
    .sort((a, b) => b - a)
    .slice(0, k)
    .reduce((sum, gain, at) => sum + gain * discount(at), 0);
  const found = new Set(first.filter((key) => gains.has(key))).size;
  return { place, mrr: place ? 1 / place : 0, ndcg: best ? got / best : 0, recall: gains.size ? found / gains.size : 0 };
}

/** The mean of a field. */
export function mean(all, field) {
  return all.length ? all.reduce((sum, one) => sum + one[field], 0) / all.length : 0;
}
