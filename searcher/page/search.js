// The search tab: the question, the request, and the states of its answer.

import { Refused, ask } from "./api.js";
import { focusFirst, showColumns } from "./columns.js";
import { announce, byId, count, el, fill, message, milliseconds, prose } from "./dom.js";
import { facts, notes, remarks } from "./facts.js";
import { seen } from "./fields.js";
import { judgedQuestions } from "./judged.js";
import { optionsForm } from "./options.js";
import { showPages } from "./pages.js";
import { DOCUMENT, RANKINGS, offsetOf, requestsOf, search, shownRankings } from "./request.js";
import { go, link, read } from "./state.js";

const NO_TOWER = "This index has no question tower here: questions are answered by BM25 alone.";
const NARROW = matchMedia("(max-width: 760px)");

/** The search tab. `indexes()` lists what is served, and `actions` open documents and explanations. */
export function searchTab(indexes, actions) {
  const [form, box, results] = ["search-form", "q", "columns"].map(byId);
  let asked = "";
  let running = null;
  let draw = () => {};
  // The question that is shown, and whether another one has been typed since.
  let question = "";
  let typed = false;

  const apply = (q) => {
    if (options.check()) {
      go({ q, ...options.values(), page: "1", doc: "", explain: "" });
    }
  };
  const options = optionsForm(() => apply(question));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // The same question again is asked again.
    asked = "";
    apply(box.value);
    if (NARROW.matches && options.check()) {
      options.close();
    }
  });
  box.addEventListener("input", () => (typed = true));
  // The box's own button has emptied it: so are the hits.
  box.addEventListener("search", () => !box.value && question && go({ q: "", page: "1", doc: "", explain: "" }));
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && focusFirst(results)) {
      event.preventDefault();
    } else if (event.key === "Escape") {
      // The question of the hits that are shown, and not an empty box above them.
      event.preventDefault();
      box.value = question;
      typed = false;
    }
  });
  byId("repeated-once").addEventListener("click", () => go({ group: "1", rerank: "", page: "1" }));
  new ResizeObserver(() => draw()).observe(results);

  /** What there is to begin with: judged questions, where some were given, else titles of the index. */
  let offered = null;
  const offer = async (state) => {
    const judged = judgedQuestions().slice(0, 3);
    const now = JSON.stringify([state.index, judged]);
    if (offered === now) {
      return;
    }
    offered = now;
    const button = (change, text) => el("a", { class: "button", href: link(change) }, prose(text, 80));
    if (judged.length) {
      const links = judged.map((text) => button({ q: text }, text));
      return show("For example ", links);
    }
    const index = state.index ? { index: state.index } : {};
    const sample = await ask("v1/documents/sample", { count: 3, fields: ["title"], ...index }).catch(() => ({ documents: [] }));
    const titled = sample.documents.filter(({ title }) => title.trim());
    const links = titled.map(({ key, title }) => button({ doc: key }, title.trim()));
    return show("Some of its documents: ", links);
    function show(words, links) {
      fill(byId("examples"), words, links);
      byId("examples").hidden = links.length === 0;
    }
  };

  const showChoice = (state, ids) => {
    const shown = ids.includes(state.column) ? state.column : ids[0];
    const choose = ({ id, label }) =>
      el(
        "button",
        { type: "button", "data-column": id, "aria-pressed": String(id === shown), click: () => go({ column: id }, true) },
        label,
      );
    const isSame = results.dataset.ids === ids.join(" ") && results.dataset.shown === shown;
    if (!isSame) {
      const had = document.activeElement?.closest?.("#column-choice");
      fill(byId("column-choice"), ids.length > 1 && RANKINGS.filter(({ id }) => ids.includes(id)).map(choose));
      had?.querySelector('[aria-pressed="true"]')?.focus();
    }
    [results.dataset.ids, results.dataset.shown] = [ids.join(" "), shown];
  };

  /** Shows a state; asks where its search is another one than before. */
  const show = (state) => {
    // Back, forward and links bring their question; what is being typed stays where only something else has changed.
    if (state.q !== question || !typed) {
      box.value = state.q;
      typed = false;
    }
    question = state.q;
    const index = indexes().find((one) => (state.index ? one.name === state.index : one.is_default));
    const hasTower = index?.has_question_tower ?? true;
    options.show(state, hasTower);
    showChoice(state, shownRankings(state, hasTower));
    draw();
    if (state.tab === "search") {
      run(state, index);
    }
  };

  const run = async (state, index) => {
    const hasTower = index?.has_question_tower ?? true;
    let requests;
    try {
      requests = requestsOf(state, hasTower);
    } catch (error) {
      return fail(new Refused(`the filter is not JSON: ${error.message}`));
    }
    const wanted = JSON.stringify([state.index, offsetOf(state), requests]);
    if (wanted === asked) {
      return undefined;
    }
    asked = wanted;
    running?.abort();
    if (!state.q.trim()) {
      return empty("initial", state);
    }
    const own = new AbortController();
    running = own;
    results.dataset.state = "loading";
    results.setAttribute("aria-busy", "true");
    byId("welcome").hidden = true;
    byId("searching").hidden = false;
    try {
      const reply = requests.length ? await search(requests, own.signal) : { rankings: {} };
      if (running === own) {
        answer(reply, state, index);
      }
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

  const answer = (reply, state, index) => {
    const hasTower = index?.has_question_tower ?? true;
    const { rankings } = reply;
    const ids = shownRankings(state, hasTower);
    const missing = {};
    const beyond = "No more hits are fused: a greater fusion depth has more.";
    ids.filter((id) => !rankings[id]).forEach((id) => (missing[id] = beyond));
    if (reply.degraded) {
      ids.filter((id) => rankings[id]?.length === 0).forEach((id) => (missing[id] = "No ranking: the answer is degraded."));
    }
    Object.values(rankings).forEach((hits) => seen(state.index, hits));
    options.suggest();
    results.dataset.state = "answered";
    fill(byId("notes"), !hasTower && message("note", NO_TOWER), notes(reply));
    const documents = reply.coverage?.documents;
    const view = { ids, actions, missing, documents, fusion: reply.fusion, metric: index?.model?.metric, language: index?.language };
    fill(byId("facts"), facts(reply, view));
    options.took(reply.timings?.total_us ?? null, remarks(reply).length);
    byId("copy-as").hidden = false;
    draw = showColumns(results, rankings, view);
    showPages(state, rankings);
    byId("repeated").hidden = !ids.some((id) => hasRepeated(rankings[id] ?? []));
    const hits = RANKINGS.filter(({ id }) => ids.includes(id)).map(({ id, label }) => `${label} ${count(rankings[id]?.length ?? 0)}`);
    const degraded = reply.degraded ? " The answer is degraded." : "";
    announce(`Hits: ${hits.join(", ")}. ${milliseconds(reply.timings?.total_us ?? 0)}.${degraded}`);
  };

  /** Without hits: at the start, and after a refusal. */
  const empty = (kind, state = null) => {
    results.dataset.state = kind;
    draw = () => {};
    byId("welcome").hidden = kind !== "initial";
    byId("copy-as").hidden = true;
    byId("pages").hidden = true;
    byId("repeated").hidden = true;
    options.took(null);
    [results, byId("facts"), byId("notes")].forEach((part) => fill(part));
    return state && offer(state);
  };

  const fail = (error) => {
    empty("failed");
    if (error.code === 401) {
      // The settings ask for a key.
      asked = "";
      return;
    }
    const again = el("button", { type: "button", click: () => ((asked = ""), show(read())) }, "Try again");
    fill(byId("notes"), message("error", prose(sentence(error.message), 1000), " ", again));
  };

  // What was changed is asked for again.
  window.addEventListener("index-changed", () => (asked = ""));
  return show;
}

/** Whether two hits are passages of one document. */
function hasRepeated(hits) {
  const documents = hits.map((hit) => hit.document?.metadata?.[DOCUMENT]).filter((one) => one !== undefined && one !== null);
  return new Set(documents.map(String)).size < documents.length;
}

/** What a refusal says, as a sentence. */
function sentence(refusal) {
  const text = refusal.replace(/^invalid request: /, "");
  return text.slice(0, 1).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
}
