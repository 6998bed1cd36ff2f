// A snippet: the part of a text that says most about a question, with dots where it is cut and the informative words marked.

import { el, prose } from "./dom.js";
import { TEXT_BYTES } from "./request.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

// Words of English questions that BM25 counts, its own list of stop words being shorter, and that say nothing about what is asked. Used for indexes
// of English alone; other languages have every word marked that BM25 has found.
const COMMON = new Set(
  `what which who whom whose when where why how has have had having do does did done can could would should were been being am
   he she him his her hers its i you we me my mine your yours our ours us them theirs from about than so too very also`.split(/\s+/),
);

/** Whether a word is worth a mark. Those in capitals alone are names: WHO, US. */
export function isInformative(word, language) {
  const isName = word.length > 1 && word === word.toUpperCase();
  return language !== "en" || isName || !COMMON.has(word.toLowerCase());
}

// Words end a snippet: what stands after the last one is no more of the text.
const HAS_WORD = /[\p{L}\p{N}]/u;

/** What stands before and after a snippet: dots where the text goes on, else the signs that end it. `text` may be the beginning of a longer one. */
export function edges(snippet, text, mostBytes) {
  const at = text.indexOf(snippet);
  // A text is cut before the letter that would be too much.
  const isWhole = encoder.encode(text).length < mostBytes - 3;
  const before = at >= 0 ? text.slice(0, at) : "…";
  const rest = at >= 0 ? text.slice(at + snippet.length) : "…";
  const starts = at >= 0 && !HAS_WORD.test(before);
  const ends = at >= 0 && isWhole && !HAS_WORD.test(rest);
  return [starts ? before.trim() : "… ", ends ? rest.trim().slice(0, 8) : " …"];
}

/** A hit's snippet; the places of its marks are bytes of UTF-8. */
export function snippetOf(hit, language) {
  const { text, highlights } = hit.snippet;
  const all = encoder.encode(text);
  const slice = (start, end) => decoder.decode(all.subarray(start, end));
  const parts = [];
  let at = 0;
  for (const { start, end } of highlights.filter(({ start, end }) => isInformative(slice(start, end), language))) {
    parts.push(prose(slice(at, start), 2000));
    parts.push(el("mark", {}, prose(slice(start, end), 300)));
    at = end;
  }
  parts.push(prose(slice(at), 2000));
  const [before, after] = text ? edges(text, hit.document?.text ?? "", TEXT_BYTES) : ["", ""];
  return el("p", { class: "snippet", dir: "auto" }, before, parts, after);
}
