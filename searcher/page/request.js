// The requests of a state: one, or one for each ranking where the API compares only plain ones.

import { ask } from "./api.js";

/** The rankings in their order; a further one is a further entry. */
export const RANKINGS = [
  { id: "dense", label: "Dense", mode: "MODE_DENSE" },
  { id: "bm25", label: "BM25", mode: "MODE_BM25" },
  { id: "hybrid", label: "Hybrid", mode: "MODE_HYBRID" },
];

/** The field that says of which document a passage is. */
export const DOCUMENT = "document";

/** Hits of a page at most: what comes after them is on the next page. */
export const MOST = 200;

// Hits that each ranking gives to the fusion where nothing else is asked for.
const FUSION_DEPTH = 100;
const DEEPEST = 10_000;
const SNIPPET_BYTES = 280;
// Beginnings of texts, by which the page knows whether a snippet is the beginning or the end of its text.
export const TEXT_BYTES = 2048;

const number = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);

/** The filter of a state; throws where its JSON cannot be read. */
export function filterOf(state) {
  if (!state.filter.trim()) {
    return null;
  }
  const filter = JSON.parse(state.filter);
  if (typeof filter !== "object" || filter === null || Array.isArray(filter)) {
    throw new SyntaxError('expected an object, for example {"exists": {"field": "lang"}}');
  }
  return filter;
}

/** Hits of a page of a state; 10 where none are asked for, as in the API. Numbers that are none are left to the server, which names them. */
export function pageSize(state) {
  if (Number(state.k) === 0) {
    return 10;
  }
  return Number(state.k) > MOST ? MOST : number(state.k);
}

/** Best hits that a state leaves out: those of the pages before. */
export function offsetOf(state) {
  const page = Math.floor(Number(state.page));
  return page > 1 && pageSize(state) > 0 ? (page - 1) * pageSize(state) : 0;
}

/** Places of a ranking that its pages may show. */
export function deepest(state, id) {
  if (id !== "hybrid" || state.group) {
    return DEEPEST;
  }
  return Math.max(FUSION_DEPTH, pageSize(state) || 0, Number(state.depth) || 0);
}

/** The search of a state as the API takes it, in one mode. */
export function searchOf(state, mode) {
  const request = { query: state.q, mode, k: pageSize(state) };
  const isFused = mode === "MODE_HYBRID" || mode === "MODE_COMPARE";
  if (state.index) {
    request.index = state.index;
  }
  if (mode !== "MODE_BM25") {
    if (state.exact) {
      request.exact = true;
    } else if (state.recall) {
      request.target_recall = number(state.recall);
    } else if (state.ef) {
      request.ef = number(state.ef);
    }
  }
  if (isFused) {
    if (state.fusion) {
      request.fusion = `FUSION_${state.fusion.toUpperCase().replaceAll("-", "_")}`;
    }
    if (state.weight) {
      request.dense_weight = number(state.weight);
    }
    if (state.depth) {
      request.fusion_depth = number(state.depth);
    }
  }
  const filter = filterOf(state);
  if (filter) {
    request.filter = filter;
  }
  return request;
}

/** The same with its page, groups, and the cross encoder. */
export function rankingOf(state, mode) {
  const request = searchOf(state, mode);
  const offset = offsetOf(state);
  if (offset > 0) {
    request.offset = offset;
  }
  if (mode === "MODE_HYBRID" && offset > 0 && !request.fusion_depth && !state.group) {
    // Pages are parts of one ranking: that of the first page.
    request.fusion_depth = deepest(state, "hybrid");
  }
  if (state.group) {
    request.group_by = { field: DOCUMENT };
  } else if (state.rerank && mode === "MODE_HYBRID") {
    request.rerank_depth = number(state.rerank);
  }
  return request;
}

/** The rankings that a state shows, by their ids; without a question tower BM25's alone. */
export function shownRankings(state, hasTower) {
  if (!hasTower) {
    return ["bm25"];
  }
  const one = RANKINGS.find(({ id }) => id === state.mode);
  return one ? [one.id] : RANKINGS.map(({ id }) => id);
}

/** The requests of a state; several are a batch. */
export function requestsOf(state, hasTower) {
  const ids = shownRankings(state, hasTower);
  const isPlain = !offsetOf(state) && !state.group && !state.rerank;
  if (ids.length > 1 && isPlain) {
    return [searchOf(state, "MODE_COMPARE")];
  }
  const known = RANKINGS.filter(({ id }) => ids.includes(id));
  // A page beyond what is fused has no hits.
  const reached = known.filter(({ id }) => offsetOf(state) < deepest(state, id));
  return reached.map(({ mode }) => rankingOf(state, mode));
}

/** The request that is copied: where several make the answer, that of the ranking that is chosen. */
export function copiedRequest(state, hasTower) {
  const all = requestsOf(state, hasTower);
  const chosen = RANKINGS.find(({ id }) => id === state.column)?.mode;
  const one = all.find(({ mode }) => mode === chosen) ?? all[0];
  return { request: { ...one, fields: ["title"], snippet_bytes: SNIPPET_BYTES }, of: all.length };
}

/** Keys that two rankings share, divided by their hits wanted, or by the longer one's where it has fewer. */
function overlap(left, right, k) {
  const keys = new Set(left.map(identity));
  const most = Math.min(k, Math.max(left.length, right.length));
  return most ? right.filter((hit) => keys.has(identity(hit))).length / most : 0;
}

/** What makes two hits the same: the document where hits are documents, else the key. */
export function identity(hit) {
  return hit.group?.value ? JSON.stringify(hit.group.value) : hit.key;
}

/** Asks for a state: one reply, with a list of hits for each ranking in `rankings`. */
export async function search(requests, signal) {
  const shown = requests.map((request) => ({ ...request, max_text_bytes: TEXT_BYTES, snippet_bytes: SNIPPET_BYTES }));
  if (shown.length === 1) {
    const reply = await ask("v1/search", shown[0], signal);
    const id = RANKINGS.find(({ mode }) => mode === shown[0].mode)?.id;
    const { comparison } = reply;
    const rankings = comparison ? { dense: comparison.dense, bm25: comparison.bm25, hybrid: comparison.hybrid } : { [id]: reply.hits };
    return { ...reply, rankings };
  }
  const { responses } = await ask("v1/search/batch", { requests: shown }, signal);
  return together(shown, responses);
}

/** The replies of a batch as one: of the hybrid ranking, with the notes and the time of all. */
function together(requests, responses) {
  const rankings = {};
  requests.forEach(({ mode }, at) => (rankings[RANKINGS.find((one) => one.mode === mode).id] = responses[at].hits));
  const of = (id) => responses[requests.findIndex(({ mode }) => mode === `MODE_${id.toUpperCase()}`)];
  const main = of("hybrid") ?? responses.at(-1);
  const degraded = responses.find((one) => one.degraded);
  const [dense, bm25, hybrid] = RANKINGS.map(({ id }) => rankings[id]);
  const { k } = requests[0];
  const all = dense && bm25 && hybrid;
  return {
    ...main,
    rankings,
    comparison: all && {
      overlap_dense_bm25: overlap(dense, bm25, k),
      overlap_dense_hybrid: overlap(dense, hybrid, k),
      overlap_bm25_hybrid: overlap(bm25, hybrid, k),
    },
    timings: { ...main.timings, total_us: Math.max(...responses.map((one) => one.timings.total_us)) },
    degraded: Boolean(degraded),
    degraded_reason: degraded?.degraded_reason ?? "",
    notes: [...new Set(responses.flatMap((one) => one.notes ?? []))],
    recall_note: responses.map((one) => one.recall_note).find(Boolean) ?? "",
  };
}
