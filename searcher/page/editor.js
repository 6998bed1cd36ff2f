// The dialog in which a document is written: a new one, or one that is there, which may be deleted too.

import { newRequestKey, put, remove, setWriteKey, wantsKey, writeKey } from "./changes.js";
import { announce, byId, count, el, fill, message, prose } from "./dom.js";

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

  get isTouched() {
    return this.input.value !== this.shown;
  }

  get() {
    return this.isTouched ? this.input.value : this.original;
  }
}

/** What the field of metadata says, as it is written, if that is an object. */
function checkedMetadata(text) {
  if (!text.trim()) {
    return "{}";
  }
  const problem = "Metadata: expected an object of JSON, such as {\"lang\": \"en\"}";
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${problem}. ${error.message}`, { cause: error });
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error(`${problem}, got another value`);
  }
  return text;
}

/** The dialog; `changed` is called once a change is served. The returned function opens it, with a document or without one. */
export function editorDialog(changed) {
  const [box, form, inputs, said] = ["editor", "editor-form", "editor-inputs", "editor-said"].map(byId);
  const [sure, remover, keyPart, keyField] = ["editor-sure", "editor-delete", "editor-write-key", "write-key"].map(byId);
  const [name, title, text, metadata] = ["editor-key", "editor-title", "editor-text", "editor-metadata"].map((id) => new Field(id));
  let place = null;
  // What the document has to be for a change of it.
  let etag = "";
  // The name of the call that was sent last, and its content: the same content is sent under the same name.
  let sent = { content: "", requestKey: "" };
  let isWorking = false;

  const ask = (isSure) => {
    sure.hidden = !isSure;
    remover.hidden = isSure || !etag;
  };
  const isTouched = () => [name, title, text, metadata].some((field) => field.isTouched);
  const expected = (content) => {
    if (content !== sent.content) {
      sent = { content, requestKey: newRequestKey() };
    }
    return { etag, requestKey: sent.requestKey };
  };
  const work = (isBegun) => {
    isWorking = isBegun;
    inputs.disabled = isBegun;
    byId("editor-close").disabled = isBegun;
  };
  const run = async (change, done) => {
    setWriteKey(place.indexer, keyField.value.trim());
    fill(said, "Working …");
    work(true);
    try {
      const { generation, isServed } = await change();
      work(false);
      if (isServed) {
        announce(generation === 0 ? "Nothing has changed." : `${done}, generation ${count(generation)}.`);
        box.close();
        changed();
        return;
      }
      // What it would be compared with is not known yet.
      inputs.disabled = true;
      [name, title, text, metadata].forEach((field) => field.set(field.get()));
      const late = `${done}, as generation ${count(generation)}, which this searcher is not known to serve yet. `;
      fill(said, message("warning", late, "It does by itself where it was started with --watch, else after `dyad-searcher admin reload`."));
    } catch (error) {
      work(false);
      fill(said, message("error", prose(error.message, 1000)));
      if (wantsKey(error)) {
        keyPart.hidden = false;
        keyField.focus();
      }
    }
  };
  /** Closes it, unless a change is under way; what was typed goes only where that is wanted. */
  const leave = () => {
    if (isWorking) {
      return;
    }
    if (!isTouched()) {
      box.close();
      return;
    }
    const discard = el("button", { type: "button", click: () => box.close() }, "Discard it");
    fill(said, message("warning", "What you have typed is not saved. ", discard));
    discard.focus();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(() => {
      const document = { key: name.get(), title: title.get(), text: text.get(), metadata: checkedMetadata(metadata.get()) };
      return put(place, document, expected(JSON.stringify(document)));
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
  byId("editor-really").addEventListener("click", () => run(() => remove(place, name.get(), expected("deleted")), "Deleted"));
  byId("editor-close").addEventListener("click", leave);
  box.addEventListener("cancel", (event) => {
    event.preventDefault();
    leave();
  });

  /** Opens it for the document that was read, with its metadata as they are written, or for a new one. */
  return (where, document = null) => {
    place = where;
    etag = document?.etag ?? "";
    sent = { content: "", requestKey: "" };
    fill(byId("editor-heading"), document ? "Edit the document" : "Add a document");
    name.set(document?.key ?? "");
    name.input.readOnly = Boolean(document);
    title.set(document?.title ?? "");
    text.set(document?.text ?? "");
    metadata.set(document?.metadataText ?? "");
    keyField.value = writeKey(place.indexer);
    keyPart.hidden = !keyField.value;
    fill(byId("write-key-place"), place.indexer);
    fill(said);
    work(false);
    ask(false);
    box.showModal();
    (document ? text : name).input.focus();
  };
}
