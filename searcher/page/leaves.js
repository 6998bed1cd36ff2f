// The leaves of a root: what each holds, answers and refuses, and shards that too few of them hold.

import { count, el, message, milliseconds, name, prose, some, table } from "./dom.js";

const LEAVES = 200;

function state({ is_up, is_leaving }) {
  if (!is_up) {
    return el("span", { class: "bad" }, "does not report");
  }
  return is_leaving ? "leaves" : "reports";
}

function row(leaf) {
  return [
    [leaf.name && [el("b", {}, name(leaf.name)), " "], el("code", {}, name(leaf.url, 200))],
    state(leaf),
    count(leaf.shards),
    count(leaf.calls_under_way),
    count(leaf.calls),
    leaf.p95_us > 0 ? milliseconds(leaf.p95_us) : "–",
  ];
}

/** How many shards so many leaves hold, from the fewest on. */
function holders(shards) {
  const held = new Map();
  for (const { leaves } of shards) {
    held.set(leaves, (held.get(leaves) ?? 0) + 1);
  }
  const said = ([leaves, number]) => `${some(number, "shard is", "shards are")} held by ${leaves === 0 ? "none" : count(leaves)}`;
  return `${[...held]
    .sort(([one], [other]) => one - other)
    .map(said)
    .join(", ")}.`;
}

/** The parts of the status of a root; none where the searcher has the shards itself. */
export function leaves(status) {
  const all = status.leaves ?? [];
  if (all.length === 0) {
    return null;
  }
  const refused = all.flatMap((leaf) => leaf.refused.map((reason) => [leaf, reason]));
  return el(
    "section",
    { class: "part" },
    el("h3", {}, "Leaves"),
    el("p", {}, `${some(all.length, "leaf", "leaves")}; ${holders(status.shards)}`),
    refused.map(([leaf, reason]) => message("warning", el("b", {}, name(leaf.name || leaf.url), ": "), prose(reason, 500))),
    table("Leaves, by address", ["Leaf", "State", "Shards", "Calls under way", "Calls", "95 % within"], all.slice(0, LEAVES).map(row)),
    all.length > LEAVES && el("p", {}, `The first ${count(LEAVES)} of ${count(all.length)} leaves.`),
  );
}
