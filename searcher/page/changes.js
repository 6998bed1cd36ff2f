// Changes of an index, by the indexer that the searcher was told of. A document is changed only as long as it is what was read.

import { Refused, ask, exchange, key } from "./api.js";

const KEY = "dyad.write-key";
const SERVED_MS = 10_000;
const PAUSE_MS = 200;

/** The key for changes; kept until the tab is closed. Without one, the key for requests may do. */
export function writeKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a key for changes, or forgets it where it is empty. */
export function setWriteKey(value) {
  try {
    if (value) {
      sessionStorage.setItem(KEY, value);
    } else {
      sessionStorage.removeItem(KEY);
    }
  } catch {
    // A browser that keeps nothing asks again.
  }
}

/** Adds a document, or replaces the one with this etag. */
export function put(place, document, etag) {
  return change(place, "upsert", { documents: [document] }, document.key, etag);
}

/** Deletes the document that has this etag. */
export function remove(place, documentKey, etag) {
  return change(place, "delete", { keys: [documentKey] }, documentKey, etag);
}

async function change({ indexer, index }, route, body, documentKey, etag) {
  const unreachable = `the indexer at ${indexer} cannot be reached. Is it running, with --cors-origin ${location.origin}?`;
  const reply = await exchange(`${indexer}/v1/${route}`, {
    body: { ...body, expected: [{ key: documentKey, etag }] },
    key: writeKey() || key(),
    unreachable,
  }).catch((error) => {
    throw new Refused(explained(error, etag), error.code, error.status);
  });
  return { generation: reply.generation, isServed: reply.generation === 0 || (await isServed(index, reply.generation)) };
}

function explained(error, etag) {
  if (error.code === 401) {
    return "The indexer wants an API key with role write: the settings take it.";
  }
  if (error.status === "ABORTED") {
    return etag ? "Others have changed this document since it was opened: close this, and open it again." : "There is a document with this key.";
  }
  return error.message;
}

/** Whether the searcher serves a generation, or does within some seconds. */
async function isServed(index, generation) {
  const until = performance.now() + SERVED_MS;
  for (;;) {
    const status = await ask(`v1/status${index ? `?index=${encodeURIComponent(index)}` : ""}`);
    if (status.generation >= generation) {
      return true;
    }
    if (performance.now() > until) {
      return false;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
