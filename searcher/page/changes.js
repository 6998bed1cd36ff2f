// Changes of an index, by the indexer that the searcher was told of. A document is changed only as long as it is what was read.

import { Refused, ask, exchange } from "./api.js";

const KEY = "dyad.write-key ";
const SERVED_MS = 10_000;
const PAUSE_MS = 200;

/** The key for changes at an indexer, which no other server is sent; kept until the tab is closed. */
export function writeKey(indexer) {
  try {
    return sessionStorage.getItem(KEY + indexer) ?? "";
  } catch {
    return "";
  }
}

/** Keeps a key for an indexer, or forgets it where it is empty. */
export function setWriteKey(indexer, value) {
  try {
    if (value) {
      sessionStorage.setItem(KEY + indexer, value);
    } else {
      sessionStorage.removeItem(KEY + indexer);
    }
  } catch {
    // A browser that keeps nothing asks again.
  }
}

/** A name for a call: one that is sent again is made once. */
export function newRequestKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Adds a document, or replaces the one that is expected; its metadata are JSON as text, so that numbers keep their digits. */
export function put(place, { key, title, text, metadata }, expected) {
  const written = JSON.stringify({ key, title, text });
  return change(place, "upsert", `"documents":[${written.slice(0, -1)},"metadata":${metadata}}]`, key, expected);
}

/** Deletes the document that is expected. */
export function remove(place, key, expected) {
  return change(place, "delete", `"keys":${JSON.stringify([key])}`, key, expected);
}

/** Whether an error says that the indexer wants a key, or another one. */
export function wantsKey(error) {
  return error.code === 401 || error.code === 403;
}

async function change({ indexer, index }, route, member, key, { etag, requestKey }) {
  const conditions = JSON.stringify({ expected: [{ key, etag }], request_key: requestKey });
  const unreachable =
    `The indexer at ${indexer} has not answered: the change may have been made, and saving again is safe. ` +
    `Is it running, with --cors-origin ${location.origin}?`;
  const text = await exchange(`${indexer}/v1/${route}`, {
    body: `{${member},${conditions.slice(1)}`,
    key: writeKey(indexer),
    unreachable,
  }).catch((error) => {
    throw new Refused(explained(error, etag), error.code, error.status);
  });
  const { generation } = JSON.parse(text);
  return { generation, isServed: generation === 0 || (await isServed(index, generation)) };
}

function explained(error, etag) {
  if (error.status === "ABORTED") {
    return etag ? "Others have changed this document since it was opened: close this, and open it again." : "There is a document with this key.";
  }
  return error.message;
}

/** Whether the searcher serves a generation, or does within some seconds, as far as it says. */
async function isServed(index, generation) {
  const until = performance.now() + SERVED_MS;
  for (;;) {
    const status = await ask(`v1/status${index ? `?index=${encodeURIComponent(index)}` : ""}`).catch(() => ({ generation: 0 }));
    if (status.generation >= generation) {
      return true;
    }
    if (performance.now() > until) {
      return false;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
