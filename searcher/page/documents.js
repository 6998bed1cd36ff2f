// Two dialogs: a document with all its fields, and why it is, or is not, among the hits.

import { ask, askForText } from "./api.js";
import { editorDialog } from "./editor.js";
import { byId, count, el, fill, message, name, pairs, printable, cut, prose, some, table } from "./dom.js";
import { textAt } from "./member_text.js";
import { paths } from "./metadata.js";
import { indexerOf } from "./places.js";
import { searchOf } from "./request.js";
import { go, link, read } from "./state.js";

const SHOWN = 20_000;
const VALUE = 2000;
const FIELDS = 300;

function shownValue(value) {
  return typeof value === "string" ? prose(value, VALUE) : el("code", {}, prose(JSON.stringify(value), VALUE));
}

function metadata(value) {
  if (value === null || value === undefined) {
    return null;
  }
  const rows = [];
  let more = 0;
  for (const [path, inner] of paths(value)) {
    if (rows.length < FIELDS) {
      rows.push([name(path.join("."), 200), shownValue(inner)]);
    } else {
      more += 1;
    }
  }
  return [table("Metadata", ["Field", "Value"], rows), more > 0 && el("p", {}, `and ${count(more)} fields more`)];
}

/** Text that grows by a button. */
function longText(text) {
  const shown = el("bdi", {}, printable(cut(text, SHOWN)));
  const box = el("div", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": "Text" }, shown);
  const note = el("p", { class: "cut" });
  let size = Math.min(SHOWN, text.length);
  const say = () => {
    note.textContent = size < text.length ? `The first ${count(size)} of ${count(text.length)} characters. ` : "";
    if (size < text.length) {
      note.append(el("button", { type: "button", class: "small", click: more }, "Show more"));
    }
  };
  const more = () => {
    size = Math.min(size + 5 * SHOWN, text.length);
    shown.textContent = printable(cut(text, size));
    say();
  };
  say();
  return [box, note];
}

function showDocument(document) {
  return [
    document.title && el("p", { class: "document-title", dir: "auto" }, prose(document.title, 1000)),
    el("p", { class: "hint" }, `Text of ${some(document.text.length, "character")}`),
    document.text && longText(document.text),
    metadata(document.metadata),
  ];
}

const PLACES = [
  ["hit", "Among the hits"],
  ["dense_exact", "Dense, exact"],
  ["dense", "Dense, as searched"],
  ["bm25", "BM25"],
];

function showExplanation(reply, mode) {
  const rows = PLACES.map(([field, label]) => {
    const place = reply[field];
    return [label, place ? count(place.rank) : "–", place ? place.score.toFixed(4) : "–"];
  });
  const terms = (reply.terms ?? []).map((term) => el("code", { class: "term" }, name(term, 60)));
  return [
    reply.hit ? message("note", `Rank ${count(reply.hit.rank)} of the ${mode} ranking.`) : message("warning", "It is not among the hits."),
    reply.reasons?.length > 0 &&
      el(
        "ul",
        { class: "reasons" },
        reply.reasons.map((reason) => el("li", {}, prose(reason, 1000))),
      ),
    table("Places", ["Ranking", "Rank", "Score"], rows),
    pairs([
      ["Filter", reply.allowed ? "allows it" : "does not allow it"],
      ["Terms of the question", terms.length ? el("span", {}, terms) : "none"],
      ["Hits of each ranking", count(reply.depth)],
      ["Beam width (ef)", reply.ef ? count(reply.ef) : "no graph searched"],
      ["Generation", count(reply.generation)],
    ]),
    reply.bm25_explanation &&
      el(
        "details",
        {},
        el("summary", {}, "BM25, term by term"),
        el("pre", { tabindex: "0" }, prose(JSON.stringify(reply.bm25_explanation, null, 1), SHOWN)),
      ),
  ];
}

/** The dialogs of a state; the returned function shows another one. `changed` is called after a change of the index. */
export function documentDialogs(indexes, changed) {
  const [box, body, heading, other, add] = ["document", "document-body", "document-heading", "document-other", "add-document"].map(byId);
  let shown = "";
  let running = null;
  const shownIndex = (state) => indexes().find((one) => (state.index ? one.name === state.index : one.is_default));
  /** Where the shown index is changed; none where nobody has said. */
  const placeOf = (state) => {
    const indexer = indexerOf(shownIndex(state)?.name ?? "");
    return indexer && { indexer, index: state.index };
  };
  const edit = editorDialog(() => {
    shown = "";
    changed();
  });
  add.addEventListener("click", () => edit(placeOf(read())));
  box.addEventListener("close", () => {
    running?.abort();
    shown = "";
    go({ doc: "", explain: "" });
  });
  byId("document-close").addEventListener("click", () => box.close());
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("key").value;
    if (key) {
      go(event.submitter?.value === "explain" ? { explain: key, doc: "" } : { doc: key, explain: "" });
    }
  });

  const load = async (wanted, made) => {
    running?.abort();
    const own = new AbortController();
    running = own;
    fill(body, el("p", { class: "loading", role: "status" }, "Loading …"));
    try {
      const reply = await wanted(own.signal);
      if (running === own) {
        fill(body, made(reply));
      }
    } catch (error) {
      if (error.name !== "AbortError") {
        fill(body, message("error", prose(error.message, 1000)));
      }
    }
  };
  const documentOf = async (state, signal) => {
    const index = state.index ? { index: state.index } : {};
    const { reply, text } = await askForText("v1/documents", { keys: [state.doc], ...index }, signal);
    const stored = reply.documents[0];
    return stored ? { ...stored, metadataText: textAt(text, ["documents", null, "metadata"]) } : null;
  };
  /** The document, and a button for changes where it can be changed. */
  const showStored = (stored, place) => {
    const editor = stored && place && el("button", { type: "button", click: () => edit(place, stored) }, "Edit");
    other.querySelector("button")?.remove();
    if (editor) {
      other.append(editor);
    }
    return stored ? showDocument(stored) : message("warning", "The index has no document with this key.");
  };

  return (state) => {
    add.hidden = !placeOf(state);
    const key = state.doc || state.explain;
    if (!key) {
      if (box.open) {
        box.close();
      }
      return;
    }
    const now = JSON.stringify([state.doc, state.explain, state.index, state.explain && [state.q, state.k, state.ef, state.mode]]);
    if (now === shown && box.open) {
      return;
    }
    shown = now;
    fill(heading, state.doc ? "Document" : "Explanation");
    fill(byId("document-key"), el("code", {}, name(key, 4096)));
    const hasQuestion = Boolean(state.q.trim());
    fill(
      other,
      state.doc
        ? hasQuestion && el("a", { class: "button", href: link({ doc: "", explain: key }) }, "Explain")
        : el("a", { class: "button", href: link({ doc: key, explain: "" }) }, "Document"),
    );
    if (!box.open) {
      box.showModal();
      byId("document-close").focus();
    }
    if (state.doc) {
      load(
        (signal) => documentOf(state, signal),
        (stored) => showStored(stored, placeOf(state)),
      );
    } else if (!hasQuestion) {
      fill(body, message("note", "An explanation is of a question: search for something first."));
    } else {
      const one = shownIndex(state);
      const chosen = state.mode === "dense" || state.mode === "bm25" ? state.mode : "hybrid";
      const mode = (one?.has_question_tower ?? true) ? chosen : "bm25";
      load(
        (signal) => ask("v1/explain", { key, search: searchOf(state, `MODE_${mode.toUpperCase()}`) }, signal),
        (reply) => showExplanation(reply, mode === "bm25" ? "BM25" : mode),
      );
    }
  };
}
