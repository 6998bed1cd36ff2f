// Elements made of data. Data becomes text nodes and nothing else: no function here reads markup.

const SVG = "http://www.w3.org/2000/svg";

// Control characters but line feed and tab.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
// Letters without a shape of their own, those that change the direction of text among them.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/u;

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
}

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  append(element, children);
  return element;
}

/** An element; attributes that are functions listen to the event of that name. Names come from the page's code, never from data. */
export function el(name, attributes = {}, ...children) {
  return make(document.createElement(name), attributes, children);
}

/** An element of a drawing. */
export function svg(name, attributes = {}, ...children) {
  return make(document.createElementNS(SVG, name), attributes, children);
}

/** Other children in place of those of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

/** The element with an id. */
export function byId(id) {
  return document.getElementById(id);
}

/** The beginning of a text, without half a character at its end. */
export function cut(text, most) {
  if (text.length <= most) {
    return text;
  }
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

/** Text with a picture in place of each control character. */
export function printable(text) {
  return text.replace(CONTROLS, (one) => {
    const code = one.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\ufffd";
  });
}

function length(text, shown) {
  return el("span", { class: "cut" }, ` … (the first ${count(shown)} of ${count(text.length)} characters)`);
}

/** Text of a document: its direction ends with it, and what is longer than `most` is cut, with its length. */
export function prose(text, most = 300) {
  const shown = cut(text, most);
  return [el("bdi", { class: "prose" }, printable(shown)), shown.length < text.length && length(text, shown.length)];
}

/** A key or a field's name, letter by letter: what cannot be seen is shown by its number. */
export function name(text, most = 120) {
  const shown = cut(text, most);
  const parts = [];
  let plain = "";
  for (const letter of shown) {
    if (INVISIBLE.test(letter)) {
      const code = `U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
      parts.push(plain, el("span", { class: "invisible" }, code));
      plain = "";
    } else {
      plain += letter;
    }
  }
  return [el("bdi", { class: "name" }, parts, plain), shown.length < text.length && length(text, shown.length)];
}

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A whole number with thousands set apart. */
export function count(value) {
  return NUMBER.format(value ?? 0);
}

/** A number of things, with the word for one and for many. */
export function some(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Microseconds as milliseconds. */
export function milliseconds(micros) {
  const value = micros / 1000;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;
}

/** Bytes in the unit that fits. */
export function bytes(value) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${count(value)} bytes` : `${value.toFixed(1)} ${units[unit]}`;
}

/** The value at a share of a list, 0.5 for the median; none of an empty list. */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? null;
}

/** Tells a screen reader. */
export function announce(message) {
  byId("live").textContent = message;
}

/** A table that a narrow screen scrolls by itself: names of columns, rows of cells. The first cell of a row names it. */
export function table(caption, heads, rows) {
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      heads.map((one) => el("th", { scope: "col" }, one)),
    ),
  );
  const row = ([first, ...cells]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, first),
      cells.map((cell) => el("td", {}, cell)),
    );
  const made = el("table", {}, el("caption", {}, caption), head, el("tbody", {}, rows.map(row)));
  return el("div", { class: "scrolls", role: "region", "aria-label": caption, tabindex: "0" }, made);
}

/** Pairs of name and value. */
export function pairs(all) {
  const shown = all.filter((pair) => pair && pair[1] !== null && pair[1] !== undefined && pair[1] !== "");
  return el(
    "dl",
    { class: "pairs" },
    shown.map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]),
  );
}

/** A box with a message: `error`, `warning` or `note`. */
export function message(kind, ...children) {
  return el("div", { class: `message ${kind}`, role: kind === "error" ? "alert" : null }, children);
}
