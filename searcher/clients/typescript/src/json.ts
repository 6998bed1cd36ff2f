// JSON in which whole numbers keep their digits: those that no `number` holds are `bigint`, in both directions.

import { randomName } from "./random.js";

/** A value of JSON. Whole numbers beyond 2^53 are `bigint`; so is what is written with their digits. */
export type JsonValue = string | number | bigint | boolean | null | JsonValue[] | { [name: string]: JsonValue };

/** The metadata of a document. */
export type Metadata = { [name: string]: JsonValue };

/** Sixteen digits or more, and no part of a fraction or an exponent. */
const LONG_WHOLE = /(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/** Reads JSON. */
export function parse(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  // JSON.parse rounds before anybody sees the digits: it is given them as texts, which begin with a name that no
  // document has.
  const mark = randomName();
  const marked = outsideTexts(text, (part) =>
    part.replace(LONG_WHOLE, (digits) => (Number.isSafeInteger(Number(digits)) ? digits : `"${mark}${digits}"`)),
  );
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/** Writes JSON. Numbers that it does not have are refused: `JSON.stringify` would write null in their place. */
export function stringify(value: unknown): string {
  const mark = randomName();
  let hasLong = false;
  // By its holder, since a program may have given `bigint` a `toJSON`, which comes before.
  const text = JSON.stringify(value, function (this: Record<string, unknown>, name, member: unknown) {
    const original = this[name];
    if (typeof member === "number" && !Number.isFinite(member)) {
      const what = Array.isArray(this) ? `a list, at ${name}` : `\`${name}\``;
      throw new RangeError(`${what}: expected a finite number, got ${member}. Leave it out, or give null`);
    }
    if (typeof original !== "bigint") return member;
    hasLong = true;
    return `${mark}${original}`;
  });
  return hasLong ? text.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1") : text;
}

/** Changes what stands between the texts of JSON. */
function outsideTexts(json: string, change: (part: string) => string): string {
  const parts: string[] = [];
  let position = 0;
  for (;;) {
    const open = json.indexOf('"', position);
    if (open < 0) break;
    const end = endOfText(json, open);
    parts.push(change(json.slice(position, open)), json.slice(open, end));
    position = end;
  }
  parts.push(change(json.slice(position)));
  return parts.join("");
}

/** Where the text ends that a quote opens: after the first quote before which is an even number of backslashes. */
function endOfText(json: string, open: number): number {
  let close = open;
  for (;;) {
    close = json.indexOf('"', close + 1);
    if (close < 0) return json.length;
    let first = close;
    while (json[first - 1] === "\\") first -= 1;
    if ((close - first) % 2 === 0) return close + 1;
  }
}
