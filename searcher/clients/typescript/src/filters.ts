// Which documents a call is about: `field("year").atLeast(1990)`, `keys([...])`, combined by `all`, `any` and `not`.
//
// A field is `key`, `title`, or one of the documents' metadata: `lang`, and `author.name` for one object inside
// another. A document without the field, or with a value of another type, matches no condition on it, and so matches
// its `not`.

import type { Filter, FilterValue } from "./types.js";

/** Values of different types are never equal: the text "1" is not the number 1. */
export type Value = string | number | bigint | boolean;
/** Numbers, or texts by their bytes: ISO 8601 dates are in order that way. */
export type OrderedValue = string | number | bigint;

/** The comparisons of a field. Of a field with many values, one has to match. */
export interface Field {
  equals(value: Value): Filter;
  oneOf(values: Iterable<Value>): Filter;
  atLeast(value: OrderedValue): Filter;
  above(value: OrderedValue): Filter;
  atMost(value: OrderedValue): Filter;
  below(value: OrderedValue): Filter;
  /** From `low` to `high`, both included. */
  between(low: OrderedValue, high: OrderedValue): Filter;
  /** A text that begins with `prefix`, byte by byte. */
  startsWith(prefix: string): Filter;
  /** Any value of any type. */
  exists(): Filter;
}

/** A field, to be compared. */
export function field(name: string): Field {
  const value = (given: Value) => valueOf(name, given);
  return {
    equals: (given) => ({ equals: { field: name, value: value(given) } }),
    oneOf: (given) => ({ one_of: { field: name, values: listed(name, given).map(value) } }),
    atLeast: (given) => ({ range: { field: name, min: value(given) } }),
    above: (given) => ({ range: { field: name, above: value(given) } }),
    atMost: (given) => ({ range: { field: name, max: value(given) } }),
    below: (given) => ({ range: { field: name, below: value(given) } }),
    between: (low, high) => ({ range: { field: name, min: value(low), max: value(high) } }),
    startsWith: (prefix) => ({ prefix: { field: name, prefix } }),
    exists: () => ({ exists: { field: name } }),
  };
}

/** The documents that match all of one or more filters. */
export function all(...filters: Filter[]): Filter {
  return { all: { filters } };
}

/** The documents that match at least one of one or more filters. */
export function any(...filters: Filter[]): Filter {
  return { any: { filters } };
}

/** The documents that do not match. */
export function not(filter: Filter): Filter {
  return { not: filter };
}

/** The documents with these keys. */
export function keys(given: Iterable<string>): Filter {
  return { keys: { keys: listed("keys", given) } };
}

/** A list, and no text in its place, which would be one of characters. */
function listed<Item>(name: string, given: Iterable<Item>): Item[] {
  if (typeof given === "string") {
    throw new TypeError(`\`${name}\`: expected a list, got a text. Write [${JSON.stringify(given)}]`);
  }
  return [...given];
}

function valueOf(name: string, value: Value): FilterValue {
  switch (typeof value) {
    case "string":
      return { text: value };
    case "boolean":
      return { flag: value };
    case "bigint":
      return { integer: String(value) };
    case "number":
      if (Number.isFinite(value)) {
        // By its digits: doubles do not tell such numbers apart.
        const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
        return isRounded ? { integer: String(BigInt(value)) } : { number: value };
      }
  }
  const got = typeof value === "number" ? value : value === null ? "null" : typeof value;
  throw new TypeError(`\`${name}\`: expected a text, a finite number, a bigint or a boolean, got ${got}`);
}
