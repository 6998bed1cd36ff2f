// The dialog in which a document is written: a new one, or one that is there, which may be deleted too.

import { withAllDigits } from "./api.js";
import { put, remove } from "./changes.js";
import { announce, byId, count, fill, message, prose } from "./dom.js";

/** The text of a field; what was not touched stays as it was, with letters that a field cannot show. */
class Field {
  constructor(id) {
    this.input = byId(id);
  }

  set(text) {
    this.original = text;
    this.input.value = text;
    this.shown = this.input.value;
  }

  get() {
    return this.input.value === this.shown ? this.original : this.input.value;
  }
}

/** What the field of metadata says, if that is an object. */
function metadataOf(text) {
  if (!text.trim()) {
    return {};
  }
  const problem = "Metadata: expected an object of JSON, such as {\"lang\": \"en\"}";
  let value;
  try {
    value = JSON.parse(text, withAllDigits);
  } catch (error) {
    throw new Error(`${problem}. ${error.message}`, { cause: error });
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error(`${problem}, got another value`);
  }
  return value;
}

/** The dialog; `changed` is called once a change is served. The returned function opens it, with a document or without one. */
export function editorDialog(changed) {
  const [box, form, said, sure, remover] = ["editor", "editor-form", "editor-said", "editor-sure", "editor-delete"].map(byId);
  const [keyField, title, text, metadata] = ["editor-key", "editor-title", "editor-text", "editor-metadata"].map((id) => new Field(id));
  let place = null;
  let etag = "";

  const ask = (isSure) => {
    sure.hidden = !isSure;
    remover.hidden = isSure || !etag;
  };
  const run = async (work, done) => {
    const buttons = form.querySelectorAll("button");
    fill(said, "Working …");
    buttons.forEach((button) => (button.disabled = true));
    try {
      const { generation, isServed } = await work();
      if (isServed) {
        announce(generation === 0 ? "Nothing has changed." : `${done}, generation ${count(generation)}.`);
        box.close();
        changed();
        return;
      }
      const late = `${done}, as generation ${count(generation)}, which this searcher does not serve yet. `;
      fill(said, message("warning", late, "It does by itself where it was started with --watch, else after `dyad-searcher admin reload`."));
    } catch (error) {
      fill(said, message("error", prose(error.message, 1000)));
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(async () => {
      const document = { key: keyField.get(), title: title.get(), text: text.get(), metadata: metadataOf(metadata.get()) };
      return put(place, document, etag);
    }, "Saved");
  });
  // What was wrong is being mended.
  form.addEventListener("input", () => fill(said));
  remover.addEventListener("click", () => {
    ask(true);
    byId("editor-keep").focus();
  });
  byId("editor-keep").addEventListener("click", () => {
    ask(false);
    remover.focus();
  });
  byId("editor-really").addEventListener("click", () => run(() => remove(place, keyField.get(), etag), "Deleted"));
  byId("editor-close").addEventListener("click", () => box.close());

  return (where, document = null) => {
    place = where;
    etag = document?.etag ?? "";
    fill(byId("editor-heading"), document ? "Edit the document" : "Add a document");
    keyField.set(document?.key ?? "");
    keyField.input.readOnly = Boolean(document);
    title.set(document?.title ?? "");
    text.set(document?.text ?? "");
    const given = document?.metadata ?? {};
    metadata.set(Object.keys(given).length ? JSON.stringify(given, null, 2) : "");
    fill(said);
    ask(false);
    box.showModal();
    (document ? text : keyField).input.focus();
  };
}
