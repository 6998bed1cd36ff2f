// Values as literals of Python, in letters that can be seen.

// A command must look like what it does: letters that cannot be seen, or turn text around, are escaped.
export const HIDDEN =
  /[\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\uffff\u{e0000}-\u{e0fff}]/gu;

/** A number in hexadecimal with leading zeros. */
export const hex = (code, digits) => code.toString(16).padStart(digits, "0");

/** A literal of Python: that of JSON, but for letters beyond 16 bits, true and false. */
export function pythonLiteral(value) {
  if (Array.isArray(value)) {
    return `[${value.map(pythonLiteral).join(", ")}]`;
  }
  if (typeof value === "boolean") {
    return value ? "True" : "False";
  }
  const escape = (one) => (one.length > 1 ? `\\U${hex(one.codePointAt(0), 8)}` : `\\u${hex(one.charCodeAt(0), 4)}`);
  return JSON.stringify(value).replace(HIDDEN, escape);
}
