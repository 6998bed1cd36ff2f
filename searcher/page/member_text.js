// Parts of a JSON text as they are written: a number keeps its digits, which a number of JavaScript would not.

const SPACE = /[ \t\n\r]*/y;
const TEXT = /"(?:[^"\\]|\\.)*"/y;
const PLAIN = /[^,\]}\s]+/y;

/** The end of what a pattern matches at a place. */
function end(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** The end of the value that begins at a place; the text is valid. */
function endOfValue(text, at) {
  if (text[at] === '"') {
    return end(TEXT, text, at);
  }
  if (text[at] !== "{" && text[at] !== "[") {
    return end(PLAIN, text, at);
  }
  let depth = 0;
  let place = at;
  do {
    if (text[place] === '"') {
      place = end(TEXT, text, place);
    } else {
      depth += "{[".includes(text[place]) ? 1 : "}]".includes(text[place]) ? -1 : 0;
      place += 1;
    }
  } while (depth > 0);
  return place;
}

/** The text of an object's member, or of an array's first entry where `name` is null; null where there is none. The text is valid JSON. */
function memberText(text, name) {
  let at = end(SPACE, text, end(SPACE, text, 0) + 1);
  while (at < text.length && text[at] !== "}" && text[at] !== "]") {
    let found = name === null;
    if (!found) {
      const endOfName = end(TEXT, text, at);
      found = JSON.parse(text.slice(at, endOfName)) === name;
      // Beyond the colon.
      at = end(SPACE, text, end(SPACE, text, endOfName) + 1);
    }
    const after = endOfValue(text, at);
    if (found) {
      return text.slice(at, after);
    }
    at = end(SPACE, text, after);
    at = text[at] === "," ? end(SPACE, text, at + 1) : at;
  }
  return null;
}

/** The text at a path of names, and of nulls for the first entry of an array; null where there is none. */
export function textAt(text, path) {
  JSON.parse(text);
  let part = text.trim();
  for (const name of path) {
    if (part === null || part[0] !== (name === null ? "[" : "{")) {
      return null;
    }
    part = memberText(part, name);
  }
  return part;
}
