// A filter by rows of field, comparison and value, all of which have to hold; and as JSON for every other one.

import { byId, el, fill } from "./dom.js";

const COMPARISONS = [
  ["equals", "equals"],
  ["one_of", "is one of"],
  ["range", "is from … to …"],
  ["exists", "exists"],
];
const TYPES = [
  ["text", "text"],
  ["number", "number"],
  ["flag", "true/false"],
];

/** A number; from 2^53 on by all of its digits, as `dyad-searcher query --filter` gives it. */
function numberOf(text) {
  const number = Number(text);
  if (text === "" || !Number.isFinite(number)) {
    // The server says what is wrong with it.
    return { number: text };
  }
  if (Math.abs(number) < 2 ** 53) {
    return { number };
  }
  const whole = /^[+-]?([0-9]+)(\.0*)?$/.exec(text);
  const digits = BigInt(whole ? whole[1] : Math.abs(number));
  return { integer: `${number < 0 ? "-" : ""}${digits}` };
}

function valueOf(type, text) {
  if (type === "number") {
    return numberOf(text.trim());
  }
  return type === "flag" ? { flag: text.trim().toLowerCase() === "true" } : { text };
}

function conditionOf({ field, comparison, type, value, other }) {
  if (comparison === "exists") {
    return { exists: { field } };
  }
  if (comparison === "one_of") {
    return { one_of: { field, values: value.split(",").map((one) => valueOf(type, one.trim())) } };
  }
  if (comparison === "range") {
    const range = { field };
    if (value.trim()) {
      range.min = valueOf(type, value);
    }
    if (other.trim()) {
      range.max = valueOf(type, other);
    }
    return { range };
  }
  return { equals: { field, value: valueOf(type, value) } };
}

/** The filter of rows; none where no row has a field. */
export function filterOfRows(rows) {
  const conditions = rows.filter((row) => row.field.trim()).map(conditionOf);
  return conditions.length > 1 ? { all: { filters: conditions } } : (conditions[0] ?? null);
}

function parts(value) {
  const [type] = Object.keys(value ?? {});
  if (type === "integer") {
    return ["number", String(value.integer)];
  }
  return ["text", "number", "flag"].includes(type) ? [type, String(value[type])] : [null, ""];
}

function rowOf(condition) {
  const kinds = Object.keys(condition ?? {});
  const [comparison] = kinds;
  const inner = condition?.[comparison];
  const row = { field: String(inner?.field ?? ""), comparison, type: "text", value: "", other: "" };
  if (kinds.length !== 1 || !inner || !row.field) {
    return null;
  }
  if (comparison === "exists") {
    return row;
  }
  let values = [];
  if (comparison === "equals") {
    values = [inner.value];
  } else if (comparison === "one_of" && Array.isArray(inner.values)) {
    values = inner.values;
  } else if (comparison === "range" && !inner.above && !inner.below) {
    values = [inner.min, inner.max].filter(Boolean);
  }
  const read = values.map(parts);
  const types = new Set(read.map(([type]) => type));
  if (read.length === 0 || types.size !== 1 || types.has(null)) {
    return null;
  }
  [row.type] = types;
  const texts = read.map(([, text]) => text);
  if (comparison === "range") {
    row.value = inner.min ? texts[0] : "";
    row.other = inner.max ? texts.at(-1) : "";
  } else if (comparison === "one_of" && texts.some((text) => text.includes(",") || text !== text.trim())) {
    return null;
  } else {
    row.value = texts.join(", ");
  }
  return row;
}

/** The rows of a filter; null where it is of another form than rows have. */
export function rowsOfFilter(filter) {
  if (!filter) {
    return [];
  }
  const list = filter.all?.filters ?? [filter];
  if (!Array.isArray(list)) {
    return null;
  }
  const rows = list.map(rowOf);
  const same = rows.every(Boolean) && JSON.stringify(filterOfRows(rows)) === JSON.stringify(filter);
  return same ? rows : null;
}

function select(options, chosen, label, change) {
  const made = el("select", { "aria-label": label, change });
  options.forEach(([value, text]) => made.append(el("option", { value, selected: value === chosen }, text)));
  return made;
}

/** The filter's part of the form. `text()` is its JSON, empty for none; `show(json)` shows another one. */
export function filterForm() {
  const [root, raw, problem] = ["filter-rows", "filter-json", "filter-problem"].map(byId);
  let rows = [];

  const toJson = () => {
    const filter = filterOfRows(rows);
    raw.value = filter ? JSON.stringify(filter, null, 1) : "";
    check();
  };
  const input = (row, name, label, more = {}) =>
    el("input", {
      ...more,
      type: "text",
      value: row[name],
      "aria-label": label,
      placeholder: label,
      autocomplete: "off",
      spellcheck: "false",
      input: (event) => {
        row[name] = event.target.value;
        toJson();
      },
    });
  const change = (row, name) => (event) => {
    row[name] = event.target.value;
    toJson();
    draw();
  };
  const one = (row, at) => {
    const has = row.comparison !== "exists";
    return el(
      "li",
      { class: "filter-row" },
      input(row, "field", "Field", { "data-field": at }),
      select(COMPARISONS, row.comparison, "Comparison", change(row, "comparison")),
      has && select(TYPES, row.type, "Type of the value", change(row, "type")),
      has && input(row, "value", { one_of: "Values, with commas between them", range: "From" }[row.comparison] ?? "Value"),
      row.comparison === "range" && input(row, "other", "To"),
      el("button", { type: "button", class: "small", click: () => remove(at) }, "Remove"),
    );
  };
  const remove = (at) => {
    rows.splice(at, 1);
    toJson();
    draw();
    byId("filter-add").focus();
  };
  const draw = () => {
    fill(root, rows.map(one));
    root.hidden = rows.length === 0;
  };
  /** Says what is wrong with the JSON; true where nothing is. */
  const check = () => {
    let text = "";
    try {
      const value = raw.value.trim() ? JSON.parse(raw.value) : null;
      if (value !== null && (typeof value !== "object" || Array.isArray(value))) {
        text = "Expected an object.";
      }
    } catch (error) {
      text = `Not JSON: ${error.message}`;
    }
    problem.textContent = text;
    problem.hidden = !text;
    raw.setAttribute("aria-invalid", String(Boolean(text)));
    return !text;
  };
  const fromJson = () => {
    let known = null;
    if (check()) {
      known = rowsOfFilter(raw.value.trim() ? JSON.parse(raw.value) : null);
    }
    rows = known ?? [];
    draw();
    byId("filter-other").hidden = known !== null || !check();
  };

  byId("filter-add").addEventListener("click", () => {
    rows.push({ field: "", comparison: "equals", type: "text", value: "", other: "" });
    draw();
    root.querySelector(`[data-field="${rows.length - 1}"]`).focus();
  });
  raw.addEventListener("input", fromJson);
  return {
    check,
    text: () => raw.value.trim(),
    show: (json) => {
      let shown = json;
      try {
        shown = json.trim() ? JSON.stringify(JSON.parse(json), null, 1) : "";
      } catch {
        // Shown as it is, with what is wrong.
      }
      if (raw.value !== shown) {
        raw.value = shown;
        fromJson();
      }
      byId("filter").open ||= Boolean(shown);
    },
  };
}
