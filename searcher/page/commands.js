// The search of the page as a command: curl, grpcurl, Python. Each is the whole request, quoted for the shell.

import { key } from "./api.js";
import { announce, byId, el, fill } from "./dom.js";
import { grpcAddress } from "./settings.js";
import { read, shownSearch } from "./state.js";

// A command must look like what it does: letters that cannot be seen, or turn text around, are escaped.
const HIDDEN =
  /[\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\uffff\u{e0000}-\u{e0fff}]/gu;

const hex = (code, digits) => code.toString(16).padStart(digits, "0");

/** JSON in one line, in letters that can be seen. */
export function json(value) {
  return JSON.stringify(value).replace(HIDDEN, (one) =>
    [...Array(one.length).keys()].map((at) => `\\u${hex(one.charCodeAt(at), 4)}`).join(""),
  );
}

/** A word of a POSIX shell. */
export function shell(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A literal of Python: that of JSON, but for letters beyond 16 bits, true and false. */
function python(value) {
  if (Array.isArray(value)) {
    return `[${value.map(python).join(", ")}]`;
  }
  if (typeof value === "boolean") {
    return value ? "True" : "False";
  }
  const escape = (one) => (one.length > 1 ? `\\U${hex(one.codePointAt(0), 8)}` : `\\u${hex(one.charCodeAt(0), 4)}`);
  return JSON.stringify(value).replace(HIDDEN, escape);
}

function valueOf(value) {
  // Digits alone are code as they are.
  const isInteger = /^-?(0|[1-9][0-9]*)$/.test(value?.integer ?? "");
  return isInteger ? value.integer : python(value?.text ?? value?.number ?? value?.flag ?? value?.integer ?? "");
}

function range({ field, min, max, above, below }) {
  const name = `field(${python(field)})`;
  if (min && max) {
    return `${name}.between(${valueOf(min)}, ${valueOf(max)})`;
  }
  const ends = [
    [">=", min],
    [">", above],
    ["<=", max],
    ["<", below],
  ].filter(([, end]) => end);
  const conditions = ends.map(([sign, end]) => `(${name} ${sign} ${valueOf(end)})`);
  return conditions.length > 1 ? `(${conditions.join(" & ")})` : conditions[0];
}

/** A filter by the functions of the Python client. */
export function pythonFilter(filter) {
  const list = (inner) => `[${inner.filters.map(pythonFilter).join(", ")}]`;
  const [[kind, inner]] = Object.entries(filter);
  switch (kind) {
    case "all":
      return `all_of(${list(inner)})`;
    case "any":
      return `any_of(${list(inner)})`;
    case "not":
      return `~(${pythonFilter(inner)})`;
    case "equals":
      return `(field(${python(inner.field)}) == ${valueOf(inner.value)})`;
    case "one_of":
      return `field(${python(inner.field)}).one_of([${inner.values.map(valueOf).join(", ")}])`;
    case "range":
      return range(inner);
    case "exists":
      return `field(${python(inner.field)}).exists()`;
    case "keys":
      return `keys(${python(inner.keys)})`;
    default:
      throw new SyntaxError(`unknown condition ${kind}`);
  }
}

const isSecure = () => location.protocol === "https:";

function curl(request) {
  const url = new URL("v1/search", document.baseURI);
  url.hash = "";
  const lines = [`curl -s ${shell(url.href)}`, "-H 'Content-Type: application/json'"];
  if (key()) {
    lines.push('-H "Authorization: Bearer $DYAD_API_KEY"');
  }
  lines.push(`-d ${shell(json(request))}`);
  return lines.join(" \\\n  ");
}

function grpcurl(request) {
  const lines = [isSecure() ? "grpcurl" : "grpcurl -plaintext"];
  if (key()) {
    lines.push('-H "Authorization: Bearer $DYAD_API_KEY"');
  }
  lines.push(`-d ${shell(json(request))}`, `${shell(grpcAddress())} dyad.v1.Searcher/Search`);
  return lines.join(" \\\n  ");
}

function inPython(request) {
  const { query, mode, filter, ...rest } = request;
  const shown = filter ? pythonFilter(filter) : "";
  const used = ["all_of", "any_of", "field", "keys"].filter((name) => shown.includes(`${name}(`));
  const options = [isSecure() && "tls=True", key() && 'api_key=os.environ["DYAD_API_KEY"]'].filter(Boolean);
  const more = Object.entries(rest).map(([name, value]) => `${name}=${python(value)}`);
  const name = mode.replace("MODE_", "").toLowerCase();
  const loop =
    name === "compare"
      ? [
          "    for name, hits in reply.rankings.items():",
          "        for hit in hits:",
          "            print(name, hit.rank, hit.key, hit.score)",
        ]
      : ["    for hit in reply.hits:", "        print(hit.rank, hit.key, hit.score)"];
  return [
    ...(key() ? ["import os", ""] : []),
    `from dyad_client import ${["Searcher", ...used].join(", ")}`,
    "",
    `with Searcher(${[python(grpcAddress()), ...options].join(", ")}) as searcher:`,
    "    reply = searcher.search(",
    ...[python(query), `mode=${python(name)}`, ...more, ...(shown ? [`filter=${shown}`] : [])].map((part) => `        ${part},`),
    "    )",
    ...loop,
    "",
  ].join("\n");
}

const MAKERS = { curl, grpcurl, Python: inPython };

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Only pages from HTTPS or this machine have a clipboard: the text is selected instead.
    getSelection().selectAllChildren(byId("command"));
    return false;
  }
}

/** The dialog with the commands; `hasTower` says how the shown search is answered. */
export function commandDialog(hasTower) {
  const [box, shown, said] = ["commands", "command", "command-said"].map(byId);
  let text = "";
  const show = (kind) => {
    try {
      text = MAKERS[kind](shownSearch(read(), hasTower() ? "MODE_COMPARE" : "MODE_BM25"));
    } catch (error) {
      text = `The filter cannot be written: ${error.message}`;
    }
    shown.textContent = text;
    said.textContent = "";
    for (const choice of byId("command-kinds").children) {
      choice.setAttribute("aria-pressed", String(choice.textContent === kind));
    }
    byId("command-hint").hidden = kind === "curl";
  };
  fill(
    byId("command-kinds"),
    Object.keys(MAKERS).map((kind) => el("button", { type: "button", click: () => show(kind) }, kind)),
  );
  byId("copy-as").addEventListener("click", () => {
    show("curl");
    box.showModal();
  });
  byId("command-copy").addEventListener("click", async () => {
    said.textContent = (await copy(text)) ? "Copied." : "Selected: copy it with Ctrl+C.";
    announce(said.textContent);
  });
  byId("command-close").addEventListener("click", () => box.close());
}
