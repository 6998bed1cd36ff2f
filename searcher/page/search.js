// The search tab: the form, the request, and the states of its answer.

import { Refused, ask } from "./api.js";
import { COLUMNS, focusFirst, showColumns } from "./columns.js";
import { announce, byId, count, el, fill, message, milliseconds, prose } from "./dom.js";
import { facts, notes } from "./facts.js";
import { filterForm } from "./filters.js";
import { go, link, shownSearch } from "./state.js";

const FIELDS = ["k", "ef", "recall"];
const NO_TOWER = "This index has no question tower here: questions are answered by BM25 alone.";

/** The search tab. `indexes()` lists what is served, and `actions` open documents and explanations. */
export function searchTab(indexes, actions) {
  const [form, box, results] = ["search-form", "q", "columns"].map(byId);
  const filter = filterForm();
  let asked = "";
  let running = null;
  let draw = () => {};
  // The question that is shown, and whether another one has been typed since.
  let question = "";
  let typed = false;

  const submit = (event) => {
    event.preventDefault();
    if (!filter.check()) {
      byId("filter").open = true;
      byId("filter-json").focus();
      return;
    }
    // The same question again is asked again.
    asked = "";
    const values = Object.fromEntries(FIELDS.map((name) => [name, byId(name).value.trim()]));
    go({ q: box.value, ...values, exact: byId("exact").checked ? "1" : "", filter: compact(filter.text()), doc: "", explain: "" });
  };
  form.addEventListener("submit", submit);
  box.addEventListener("input", () => (typed = true));
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && focusFirst(results)) {
      event.preventDefault();
    }
  });
  new ResizeObserver(() => draw()).observe(results);

  for (const { id, label } of COLUMNS) {
    const choose = el("button", { type: "button", "data-column": id, click: () => go({ column: id }, true) }, label);
    byId("column-choice").append(choose);
  }

  /** Titles of the index as questions to begin with. */
  let offered = null;
  const offer = async (state) => {
    if (offered === state.index) {
      return;
    }
    offered = state.index;
    const index = state.index ? { index: state.index } : {};
    const sample = await ask("v1/documents/sample", { count: 3, fields: ["title"], ...index }).catch(() => ({ documents: [] }));
    const titles = sample.documents.map(({ title }) => title.trim()).filter((title) => title && title.length <= 80);
    const examples = titles.map((title) => el("a", { class: "button", href: link({ q: title }) }, prose(title)));
    fill(byId("examples"), "For example ", examples);
    byId("examples").hidden = examples.length === 0;
  };

  /** Shows a state; asks where its search is another one than before. */
  const show = (state) => {
    // Back, forward and links bring their question; what is being typed stays where only something else has changed.
    if (state.q !== question || !typed) {
      box.value = state.q;
      typed = false;
    }
    question = state.q;
    FIELDS.forEach((name) => (byId(name).value = state[name]));
    byId("exact").checked = Boolean(state.exact);
    filter.show(state.filter);
    results.dataset.shown = state.column;
    for (const choice of byId("column-choice").children) {
      choice.setAttribute("aria-pressed", String(choice.dataset.column === state.column));
    }
    draw();
    if (state.tab === "search") {
      run(state);
    }
  };

  const run = async (state) => {
    const index = indexes().find((one) => (state.index ? one.name === state.index : one.is_default));
    const hasTower = index?.has_question_tower ?? true;
    let request;
    try {
      request = shownSearch(state, hasTower ? "MODE_COMPARE" : "MODE_BM25");
    } catch (error) {
      return fail(new Refused(`the filter is not JSON: ${error.message}`));
    }
    const wanted = JSON.stringify(request);
    if (wanted === asked) {
      return undefined;
    }
    asked = wanted;
    running?.abort();
    if (!state.q.trim()) {
      results.dataset.state = "initial";
      byId("welcome").hidden = false;
      byId("copy-as").hidden = true;
      draw = () => {};
      [results, byId("facts"), byId("notes")].forEach((part) => fill(part));
      return offer(state);
    }
    const own = new AbortController();
    running = own;
    results.dataset.state = "loading";
    results.setAttribute("aria-busy", "true");
    byId("welcome").hidden = true;
    byId("searching").hidden = false;
    try {
      const reply = await ask("v1/search", request, own.signal);
      answer(reply, state, hasTower);
    } catch (error) {
      if (error.name !== "AbortError") {
        fail(error);
      }
    } finally {
      if (running === own) {
        results.setAttribute("aria-busy", "false");
        byId("searching").hidden = true;
      }
    }
    return undefined;
  };

  const answer = (reply, state, hasTower) => {
    const rankings = reply.comparison ?? { bm25: reply.hits };
    const missing = hasTower ? {} : { dense: NO_TOWER, hybrid: NO_TOWER };
    if (reply.degraded && reply.comparison) {
      COLUMNS.filter(({ id }) => !reply.comparison[id].length).forEach(({ id }) => (missing[id] = "No ranking: the answer is degraded."));
    }
    results.dataset.state = "answered";
    fill(byId("notes"), !hasTower && message("note", NO_TOWER), notes(reply));
    fill(byId("facts"), facts(reply));
    byId("copy-as").hidden = false;
    draw = showColumns(results, rankings, { shown: state.column, actions, missing });
    const hits = COLUMNS.map(({ id, label }) => `${label} ${count(rankings[id]?.length ?? 0)}`).join(", ");
    announce(`Hits: ${hits}. ${milliseconds(reply.timings?.total_us ?? 0)}.${reply.degraded ? " The answer is degraded." : ""}`);
  };

  const fail = (error) => {
    results.dataset.state = "failed";
    const again = el("button", { type: "button", click: () => form.requestSubmit() }, "Try again");
    const what = error.status ? `${error.code} ${error.status}: ` : "";
    byId("welcome").hidden = true;
    byId("copy-as").hidden = true;
    draw = () => {};
    fill(byId("facts"));
    fill(results);
    fill(byId("notes"), message("error", el("b", {}, what), prose(error.message, 1000), " ", again));
  };

  return show;
}

function compact(json) {
  try {
    return json ? JSON.stringify(JSON.parse(json)) : "";
  } catch {
    return json;
  }
}
