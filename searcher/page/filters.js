// A filter by rows of field, operator and value, all of which have to hold; and as JSON for every other one.

import { byId, el, fill } from "./dom.js";
import { names, typeOfField } from "./fields.js";
import { OPERATORS, operatorOf, parsed } from "./operators.js";

const TYPES = { text: "text", number: "number", flag: "true/false" };

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

/** The type of a row's value: that which was chosen, where its operator takes it. */
function typeOf(row) {
  const { types } = operatorOf(row.sign);
  return types.includes(row.type) ? row.type : types[0];
}

function conditionOf(row) {
  const operator = operatorOf(row.sign);
  const texts = { none: [], one: [row.value], many: row.value.split(",").map((one) => one.trim()) }[operator.takes];
  return operator.make(
    row.field,
    texts.map((text) => valueOf(typeOf(row), text)),
  );
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
  return type in TYPES ? [type, String(value[type])] : [null, ""];
}

function rowOf(condition) {
  const found = parsed(condition);
  if (!found?.field) {
    return null;
  }
  const { operator, field, values } = found;
  const read = values.map(parts);
  const texts = read.map(([, text]) => text);
  const types = [...new Set(read.map(([type]) => type))];
  const isShown = types.every((type) => operator.types.includes(type)) && types.length === (operator.takes === "none" ? 0 : 1);
  if (!isShown || (operator.takes === "many" && texts.some((text) => text.includes(",") || text !== text.trim()))) {
    return null;
  }
  return { field, sign: operator.sign, type: types[0] ?? "text", value: texts.join(", ") };
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

/** The filter's part of the form. `text()` is its JSON, empty for none; `show(json, index)` shows another one, of an index. */
export function filterForm() {
  const [root, raw, problem, suggested] = ["filter-rows", "filter-json", "filter-problem", "fields"].map(byId);
  let rows = [];
  let of = "";

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
  const fieldChanged = (row) => () => {
    // A field of numbers is compared with numbers.
    const type = typeOfField(of, row.field);
    if (type && type !== row.type) {
      row.type = type;
      toJson();
      draw();
    }
  };
  const one = (row, at) => {
    const operator = operatorOf(row.sign);
    const types = operator.types.map((type) => [type, TYPES[type]]);
    const operators = OPERATORS.map(({ sign, words }) => [sign, sign === words ? words : `${sign} ${words}`]);
    return el(
      "li",
      { class: "filter-row" },
      input(row, "field", "Field", { "data-field": at, list: "fields", change: fieldChanged(row) }),
      select(operators, row.sign, "Operator", change(row, "sign")),
      types.length > 1 && select(types, typeOf(row), "Type of the value", change(row, "type")),
      operator.takes !== "none" && input(row, "value", operator.takes === "many" ? "Values, with commas between them" : "Value"),
      el("button", { type: "button", class: "small", click: () => remove(at) }, "Remove"),
    );
  };
  const remove = (at) => {
    rows.splice(at, 1);
    toJson();
    draw();
    byId("filter-add").focus();
  };
  const suggest = () => {
    fill(
      suggested,
      names(of).map((name) => el("option", { value: name })),
    );
  };
  const draw = () => {
    suggest();
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
    raw.closest("details").open ||= Boolean(text);
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
    // Where rows cannot show it, its JSON is in sight.
    raw.closest("details").open ||= known === null;
  };

  byId("filter-add").addEventListener("click", () => {
    rows.push({ field: "", sign: "=", type: "text", value: "" });
    draw();
    root.querySelector(`[data-field="${rows.length - 1}"]`).focus();
  });
  raw.addEventListener("input", fromJson);
  return {
    check,
    text: () => raw.value.trim(),
    suggest,
    show: (json, index) => {
      of = index;
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
    },
  };
}
