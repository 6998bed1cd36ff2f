// The rankings next to each other, with lines between the places of the same document.

import { count, el, fill, name, prose, svg } from "./dom.js";
import { RANKINGS, identity } from "./request.js";
import { scaleOf, scoreOf, weakBelow } from "./scores.js";
import { snippetOf } from "./snippets.js";

/** Ranks by what makes hits the same, for each column. */
function ranksOf(rankings) {
  return new Map(RANKINGS.map(({ id }) => [id, new Map((rankings[id] ?? []).map((hit) => [identity(hit), hit.rank]))]));
}

/** A document's places in the rankings that are shown. */
function places(ranks, hit, ids) {
  return RANKINGS.filter(({ id }) => ids.includes(id)).map(({ id, label }) => {
    const rank = ranks.get(id).get(identity(hit));
    return el("span", { class: `place ${id}` }, `${label} ${rank ?? "–"}`);
  });
}

/** A document's places in the two rankings that a hit was fused of. */
function placesOfHit(hit) {
  return RANKINGS.filter(({ id }) => hit[id]).map(({ id, label }) => el("span", { class: `place ${id}` }, `${label} ${hit[id].rank}`));
}

function card(hit, column, view, ranks) {
  const { ids, actions, language } = view;
  const title = hit.document?.title || hit.key;
  const open = el(
    "button",
    { type: "button", class: "title", click: () => actions.open(hit.key), "aria-describedby": `of-${column.id}-${hit.rank}` },
    prose(title, 160),
  );
  const facts = el("p", { class: "facts", id: `of-${column.id}-${hit.rank}` }, scoreOf(hit, column), el("code", {}, name(hit.key, 60)));
  const explain = el("button", { type: "button", class: "small", click: () => actions.explain(hit.key) }, "Explain");
  explain.setAttribute("aria-label", `Explain ${title.slice(0, 80)}`);
  const shown = ids.length > 1 ? places(ranks, hit, ids) : placesOfHit(hit);
  const foot = el("p", { class: "foot" }, el("span", { class: "places" }, shown), explain);
  const rank = el("span", { class: "rank", "aria-hidden": "true" }, hit.rank);
  const snippet = hit.snippet?.text && snippetOf(hit, language);
  return el("li", { class: "hit", value: hit.rank }, el("h4", {}, rank, open), facts, snippet, foot);
}

/**
 * Shows rankings, a list of hits for each id of `view.ids`; `view.missing` says why one has none. Scores are named by `fusion` and `metric`, and words
 * marked by the `language` of the index.
 */
export function showColumns(root, rankings, view) {
  const { ids, missing = {}, fusion, metric } = view;
  const columns = RANKINGS.filter(({ id }) => ids.includes(id));
  const cards = columns.map(() => new Map());
  const ranks = ranksOf(rankings);
  const parts = [];
  columns.forEach(({ id, label }, at) => {
    const hits = rankings[id] ?? [];
    const scale = scaleOf(id, fusion, metric);
    const column = { id, scale, best: Math.max(...hits.map((hit) => hit.score)), weakest: weakBelow(scale, view.documents) };
    const items = hits.map((hit) => {
      const made = card(hit, column, view, ranks);
      cards[at].set(identity(hit), made);
      return made;
    });
    const empty = el("p", { class: "empty" }, missing[id] ?? "No document found.");
    const heading = el("h3", { id: `column-${id}` }, label, el("span", { class: "count" }, ` ${count(hits.length)}`));
    const list = items.length ? el("ol", { class: "hits", "aria-labelledby": `column-${id}` }, items) : empty;
    if (at > 0) {
      parts.push(el("div", { class: "gap", "aria-hidden": "true" }, svg("svg", { focusable: "false" })));
    }
    parts.push(el("section", { class: `column ${id}`, "data-column": id, "aria-labelledby": `column-${id}` }, heading, list));
  });
  fill(root, parts);
  const lines = new Map();
  const draw = () => drawLines(root, cards, lines);
  highlight(root, cards, lines);
  walk(root, cards);
  draw();
  return draw;
}

/** Lines between neighbouring columns, in the gaps between them. */
function drawLines(root, cards, lines) {
  lines.clear();
  root.querySelectorAll(".gap > svg").forEach((gap, at) => {
    fill(gap);
    const { width, height, top } = gap.getBoundingClientRect();
    if (width === 0 || height === 0) {
      return;
    }
    for (const [key, left] of cards[at]) {
      const right = cards[at + 1].get(key);
      if (!right) {
        continue;
      }
      const [from, to] = [left, right].map((one) => one.getBoundingClientRect().top - top + 20);
      const half = width / 2;
      const line = svg("path", { d: `M0 ${from}C${half} ${from} ${half} ${to} ${width} ${to}` });
      gap.append(line);
      lines.set(key, [...(lines.get(key) ?? []), line]);
    }
  });
}

/** A document under the pointer or with the focus is marked in every column. */
function highlight(root, cards, lines) {
  const all = new Map();
  for (const column of cards) {
    for (const [key, one] of column) {
      all.set(key, [...(all.get(key) ?? []), one]);
    }
  }
  let marked = [];
  const clear = () => {
    marked.forEach((one) => one.classList.remove("same"));
    marked = [];
  };
  const mark = (key) => {
    clear();
    marked = [...all.get(key), ...(lines.get(key) ?? [])];
    marked.forEach((one) => one.classList.add("same"));
  };
  for (const [key, ones] of all) {
    for (const one of ones) {
      one.addEventListener("mouseenter", () => mark(key));
      one.addEventListener("mouseleave", clear);
      one.addEventListener("focusin", () => mark(key));
      one.addEventListener("focusout", clear);
    }
  }
}

/** Arrow keys: up and down a ranking, left and right to the same document's place in the next one, or to the same rank. */
function walk(root, cards) {
  root.onkeydown = (event) => {
    const here = document.activeElement?.closest?.(".hit");
    if (!here || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) {
      return;
    }
    const at = cards.findIndex((column) => [...column.values()].includes(here));
    const column = [...cards[at].entries()];
    const place = column.findIndex(([, one]) => one === here);
    let next = null;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      next = column[place + (event.key === "ArrowDown" ? 1 : -1)]?.[1];
    } else if (event.key === "Home" || event.key === "End") {
      next = column.at(event.key === "Home" ? 0 : -1)[1];
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const other = cards[at + (event.key === "ArrowRight" ? 1 : -1)];
      next = other && (other.get(column[place][0]) ?? [...other.values()][Math.min(place, other.size - 1)]);
      if (next && next.offsetParent === null) {
        next = null;
      }
    } else {
      return;
    }
    event.preventDefault();
    next?.querySelector(".title").focus();
  };
}

/** The focus to the first hit that can be seen; false where there is none. */
export function focusFirst(root) {
  const first = [...root.querySelectorAll(".hit .title")].find((one) => one.offsetParent !== null);
  first?.focus();
  return Boolean(first);
}
