// The pages of a ranking: before, after, and which places are shown.

import { byId, count, el, fill } from "./dom.js";
import { RANKINGS, deepest, offsetOf, pageSize } from "./request.js";
import { link } from "./state.js";

/** Links to the pages next to that of a state, whose rankings are shown. */
export function showPages(state, rankings) {
  const [root, size, offset] = [byId("pages"), pageSize(state), offsetOf(state)];
  const shown = RANKINGS.filter(({ id }) => rankings[id]);
  const isFull = ({ id }) => rankings[id].length >= size;
  const hasMore = shown.some((one) => isFull(one) && offset + 2 * size <= deepest(state, one.id));
  const ends = shown.some((one) => one.id === "hybrid" && isFull(one) && offset + 2 * size > deepest(state, one.id));
  const page = Math.floor(offset / size) + 1;
  const most = Math.max(0, ...shown.map(({ id }) => rankings[id].length));
  const to = (at, words) => el("a", { class: "button", href: link({ page: String(at), doc: "", explain: "" }) }, words);
  const depth = count(deepest(state, "hybrid"));
  root.hidden = page === 1 && !hasMore && !ends;
  fill(
    root,
    page > 1 && to(page - 1, "Previous"),
    el("span", {}, most ? `Places ${count(offset + 1)} to ${count(offset + most)}` : "No more hits"),
    hasMore && to(page + 1, "Next"),
    ends && el("span", { class: "hint" }, `Hybrid is made of the first ${depth} hits of each ranking: a greater fusion depth has more.`),
  );
}
