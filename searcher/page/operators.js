// The operators of filters: one table, from which the rows, the JSON, the text, and the commands come.

import { pythonLiteral } from "./python.js";

/** The value of a JSON filter as code of Python. */
function pythonValue(value) {
  // Digits alone are code as they are.
  const isInteger = /^-?(0|[1-9][0-9]*)$/.test(value?.integer ?? "");
  return isInteger ? value.integer : pythonLiteral(value?.text ?? value?.number ?? value?.flag ?? value?.integer ?? "");
}

const hasOnly = (inner, ...names) => names.every((name) => name in inner) && Object.keys(inner).length === names.length;

/** A comparison with one end of a range; `bound` is the range's name for it. */
function ordered(sign, words, bound) {
  return {
    sign,
    words,
    takes: "one",
    types: ["text", "number"],
    make: (field, [value]) => ({ range: { field, [bound]: value } }),
    read: ({ range }) => range && hasOnly(range, "field", bound) && { field: range.field, values: [range[bound]] },
    python: (name, [value]) => `(${name} ${sign} ${pythonValue(value)})`,
  };
}

/**
 * Each has its sign, its words for people, how many values it takes (`none`, `one`, `many`) and of which types; `make` gives the condition of the API,
 * `read` takes it apart again (nothing where it is another one), and `python` is the condition by the Python client.
 */
export const OPERATORS = [
  {
    sign: "=",
    words: "equals",
    takes: "one",
    types: ["text", "number", "flag"],
    make: (field, [value]) => ({ equals: { field, value } }),
    read: ({ equals }) => equals && hasOnly(equals, "field", "value") && { field: equals.field, values: [equals.value] },
    python: (name, [value]) => `(${name} == ${pythonValue(value)})`,
  },
  {
    sign: "!=",
    words: "does not equal",
    takes: "one",
    types: ["text", "number", "flag"],
    make: (field, [value]) => ({ not: { equals: { field, value } } }),
    read: ({ not }) => not?.equals && hasOnly(not, "equals") && { field: not.equals.field, values: [not.equals.value] },
    python: (name, [value]) => `(${name} != ${pythonValue(value)})`,
  },
  ordered(">", "is more than", "above"),
  ordered(">=", "is at least", "min"),
  ordered("<", "is less than", "below"),
  ordered("<=", "is at most", "max"),
  {
    sign: "^=",
    words: "begins with",
    takes: "one",
    types: ["text"],
    make: (field, [value]) => ({ prefix: { field, prefix: value.text } }),
    read: ({ prefix }) => prefix && hasOnly(prefix, "field", "prefix") && { field: prefix.field, values: [{ text: prefix.prefix }] },
    python: (name, [value]) => `${name}.startswith(${pythonValue(value)})`,
  },
  {
    sign: "in",
    words: "is one of",
    takes: "many",
    types: ["text", "number", "flag"],
    make: (field, values) => ({ one_of: { field, values } }),
    read: ({ one_of: some }) =>
      some && hasOnly(some, "field", "values") && Array.isArray(some.values) && { field: some.field, values: some.values },
    python: (name, values) => `${name}.one_of([${values.map(pythonValue).join(", ")}])`,
  },
  {
    sign: "exists",
    words: "exists",
    takes: "none",
    types: [],
    make: (field) => ({ exists: { field } }),
    read: ({ exists }) => exists && hasOnly(exists, "field") && { field: exists.field, values: [] },
    python: (name) => `${name}.exists()`,
  },
];

/** The operator with a sign. */
export function operatorOf(sign) {
  return OPERATORS.find((one) => one.sign === sign) ?? OPERATORS[0];
}

/** A condition as its operator, field and values; none where it is no condition of one operator. */
export function parsed(condition) {
  if (typeof condition !== "object" || condition === null || Object.keys(condition).length !== 1) {
    return null;
  }
  for (const operator of OPERATORS) {
    const found = operator.read(condition);
    if (found && typeof found.field === "string") {
      return { operator, ...found };
    }
  }
  return null;
}

// A text that the command line would take for something else is given in quotes.
const LOOKS_TYPED = /^(true|false|[+-]?[0-9.].*|".*|.*[|].*|)$/s;

function valueText(value) {
  if (typeof value?.text === "string") {
    return LOOKS_TYPED.test(value.text) || value.text !== value.text.trim() ? JSON.stringify(value.text) : value.text;
  }
  return String(value?.number ?? value?.flag ?? value?.integer ?? "");
}

/** A condition as people and the command line write it; none where it is no condition of one operator. */
export function conditionText(condition) {
  const found = parsed(condition);
  if (!found) {
    return null;
  }
  const { operator, field, values } = found;
  const shown = values.map(valueText).join("|");
  return [field, operator.sign, operator.takes === "none" ? "" : shown].join(" ").trim();
}

/** A filter in words; what rows cannot show is only named. */
export function filterText(filter) {
  const list = filter?.all?.filters ?? [filter];
  const texts = Array.isArray(list) ? list.map(conditionText) : [null];
  return texts.every(Boolean) ? texts.join(" and ") : "a filter in JSON";
}

/** A filter by the functions of the Python client. */
export function pythonFilter(filter) {
  const found = parsed(filter);
  if (found) {
    return found.operator.python(`field(${pythonLiteral(found.field)})`, found.values);
  }
  const list = (inner) => `[${inner.filters.map(pythonFilter).join(", ")}]`;
  const [[kind, inner]] = Object.entries(filter);
  switch (kind) {
    case "all":
      return `all_of(${list(inner)})`;
    case "any":
      return `any_of(${list(inner)})`;
    case "not":
      return `~(${pythonFilter(inner)})`;
    case "range":
      return pythonRange(inner);
    case "keys":
      return `keys(${pythonLiteral(inner.keys)})`;
    default:
      throw new SyntaxError(`unknown condition ${kind}`);
  }
}

/** A range with two ends: one value has to be between them, which two conditions would not ask of a list. */
function pythonRange({ field, min, max, ...open }) {
  const name = `field(${pythonLiteral(field)})`;
  if (min && max) {
    return `${name}.between(${pythonValue(min)}, ${pythonValue(max)})`;
  }
  const ends = Object.entries({ min, max, ...open }).filter(([, end]) => end);
  const parts = ends.map(([bound, end]) => pythonFilter({ range: { field, [bound]: end } }));
  return `(${parts.join(" & ")})`;
}
