// What is set besides the question: the controls, which are folded, and the line that says it.

import { ask } from "./api.js";
import { byId, count, el, fill, milliseconds, some } from "./dom.js";
import { list } from "./fields.js";
import { filterForm } from "./filters.js";
import { filterText } from "./operators.js";
import { filterOf, pageSize, shownRankings } from "./request.js";

const FIELDS = ["mode", "k", "ef", "recall", "fusion", "weight", "depth"];
const RERANKED = "20";
const FUSIONS = { "log-odds": "log odds", "weighted-sum": "weighted sum", "min-max": "min-max", rrf: "reciprocal ranks" };
const MODES = { dense: "dense", bm25: "BM25", hybrid: "hybrid" };

/** A filter of a state in words. */
function filterWords(state) {
  try {
    const filter = filterOf(state);
    return filter && filterText(filter);
  } catch {
    return "a filter that is not JSON";
  }
}

/** What is set, in words. */
export function summary(state, hasTower) {
  const shown = shownRankings(state, hasTower);
  const isDense = shown.some((id) => id !== "bm25");
  const isFused = shown.includes("hybrid");
  const hits = pageSize(state);
  const graph = state.exact ? "exact" : state.recall ? `recall ${state.recall}` : state.ef && `ef ${state.ef}`;
  return [
    shown.length > 1 ? "three rankings" : MODES[shown[0]],
    hits > 0 ? some(hits, "hit") : `${state.k} hits`,
    state.group && "one per document",
    isFused && state.rerank && !state.group && `best ${state.rerank} reranked`,
    isDense && graph,
    isFused && state.fusion && (FUSIONS[state.fusion] ?? state.fusion),
    isFused && state.weight && `dense weight ${state.weight}`,
    isFused && state.depth && `fusion depth ${count(Number(state.depth))}`,
    filterWords(state),
  ]
    .filter(Boolean)
    .join(" · ");
}

/** A button that opens and closes what it controls. */
function folds(button, part, opened = () => {}) {
  const set = (isOpen) => {
    part.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) {
      opened();
    }
  };
  button.addEventListener("click", () => set(part.hidden));
  return set;
}

/** The options; `apply` searches with what is set now. */
export function optionsForm(apply) {
  const filter = filterForm();
  const [form, part, line, time] = ["search-form", "options", "options-line", "facts-line"].map(byId);
  const [exact, group, rerank] = ["exact", "group", "rerank"].map(byId);
  let of = "";
  let depth = RERANKED;

  /** What the server says of the index: its fields, and whether a cross encoder is served. */
  const know = async (index) => {
    list(index).then(filter.suggest);
    const status = await ask(`v1/status${index ? `?index=${encodeURIComponent(index)}` : ""}`).catch(() => null);
    if (of === index) {
      const gain = status?.rerank_gain;
      byId("rerank-part").hidden = !status?.reranker;
      byId("rerank-gain").textContent = gain ? `nDCG@10 ${gain.before.toFixed(3)} to ${gain.after.toFixed(3)} on judged questions` : "";
    }
  };
  const open = folds(line, part, () => know(of));
  const openFacts = folds(time, byId("facts"));

  for (const control of [exact, group, rerank, byId("mode"), byId("fusion")]) {
    control.addEventListener("change", () => {
      if (control.checked && control !== exact) {
        // A cross encoder orders hits, and groups are made of the ranking as it is.
        (control === group ? rerank : group).checked = false;
      }
      apply();
    });
  }
  return {
    /** True where nothing is wrong; what is wrong is shown. */
    check: () => {
      if (!form.checkValidity()) {
        // The browser says what is wrong with a number where it can be seen.
        open(true);
        form.reportValidity();
        return false;
      }
      const isRight = filter.check();
      if (!isRight) {
        open(true);
        byId("filter-json").focus();
      }
      return isRight;
    },
    /** The part of the state that is set here. */
    values: () => ({
      ...Object.fromEntries(FIELDS.map((name) => [name, byId(name).value.trim()])),
      exact: exact.checked ? "1" : "",
      group: group.checked ? "1" : "",
      rerank: rerank.checked ? depth : "",
      filter: compact(filter.text()),
    }),
    close: () => open(false),
    show: (state, hasTower) => {
      FIELDS.forEach((name) => (byId(name).value = state[name]));
      byId("k").value = pageSize(state);
      exact.checked = Boolean(state.exact);
      group.checked = Boolean(state.group);
      rerank.checked = Boolean(state.rerank);
      depth = state.rerank || RERANKED;
      byId("rerank-depth").textContent = depth;
      byId("mode").disabled = !hasTower;
      filter.show(state.filter, state.index);
      byId("options-said").textContent = summary(state, hasTower);
      if (state.index !== of) {
        of = state.index;
        if (!part.hidden) {
          know(of);
        }
      }
    },
    /** The time of an answer, and how many remarks it has; or none. */
    took: (micros, remarks = 0) => {
      time.hidden = micros === null;
      const more = remarks > 0 && el("span", { class: "wide" }, ` · ${some(remarks, "note")}`);
      fill(byId("facts-said"), micros !== null && [milliseconds(micros), more]);
      if (micros === null) {
        openFacts(false);
      }
    },
    suggest: filter.suggest,
  };
}

function compact(json) {
  try {
    return json ? JSON.stringify(JSON.parse(json)) : "";
  } catch {
    return json;
  }
}
