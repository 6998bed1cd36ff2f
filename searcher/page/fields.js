// The fields that filters may name: those that the server lists, where it does, else those of the hits that were seen.

import { ask, hasRoute } from "./api.js";
import { paths } from "./metadata.js";

const ALWAYS = { key: ["text"], title: ["text"] };
const MOST = 500;
const known = new Map();

function of(index) {
  if (!known.has(index)) {
    known.set(index, new Map(Object.entries(ALWAYS).map(([name, types]) => [name, new Set(types)])));
  }
  return known.get(index);
}

/** Names of fields of the document itself; those of its metadata that are called so are addressed with where they are. */
const OWN = ["key", "title", "text"];

const TYPES = { string: "text", number: "number", boolean: "flag" };

/** Remembers the fields of hits of an index. */
export function seen(index, hits) {
  const fields = of(index);
  for (const { document } of hits) {
    for (const [path, value] of paths(document?.metadata)) {
      const name = path.join(".");
      const asked = OWN.includes(name) || name.startsWith("metadata.") ? `metadata.${name}` : name;
      if (asked && (fields.has(asked) || fields.size < MOST)) {
        const types = fields.get(asked) ?? new Set();
        [value].flat().forEach((one) => types.add(TYPES[typeof one] ?? (JSON.isRawJSON?.(one) ? "number" : "")));
        fields.set(asked, types);
      }
    }
  }
}

const listed = new Set();

/** Asks the server for the fields of an index, once; those that were seen stay where it has no such route. */
export async function list(index) {
  if (listed.has(index)) {
    return;
  }
  listed.add(index);
  try {
    if (await hasRoute("/v1/fields")) {
      const { fields } = await ask(`v1/fields${index ? `?index=${encodeURIComponent(index)}` : ""}`);
      fields.slice(0, MOST).forEach(({ name, types }) => of(index).set(name, new Set(Object.keys(types ?? {}).map(typeOf))));
    }
  } catch {
    // Fields can be typed.
  }
}

/** The page's name of a type that the server counts documents by. */
function typeOf(name) {
  return { texts: "text", numbers: "number", flags: "flag" }[name];
}

/** Names of the fields of an index, in order. */
export function names(index) {
  return [...of(index).keys()].sort();
}

/** The type of a field's values, where they have one. */
export function typeOfField(index, name) {
  const types = [...(of(index).get(name) ?? [])].filter(Boolean);
  return types.length === 1 ? types[0] : null;
}
