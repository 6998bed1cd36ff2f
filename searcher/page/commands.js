// The search of the page as a command: curl, grpcurl, Python. Each is the whole request, quoted for the shell.

import { key } from "./api.js";
import { announce, byId, el, fill } from "./dom.js";
import { pythonFilter } from "./operators.js";
import { HIDDEN, hex, pythonLiteral as python } from "./python.js";
import { RANKINGS, copiedRequest } from "./request.js";
import { grpcAddress } from "./settings.js";
import { read } from "./state.js";

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
  const { query, mode, filter, group_by: groups, fusion, ...rest } = request;
  const shown = filter ? pythonFilter(filter) : "";
  const used = ["all_of", "any_of", "field", "keys"].filter((name) => shown.includes(`${name}(`));
  const options = [isSecure() && "tls=True", key() && 'api_key=os.environ["DYAD_API_KEY"]'].filter(Boolean);
  const words = fusion && fusion.replace("FUSION_", "").toLowerCase().replaceAll("_", "-");
  const named = { ...rest, ...(groups && { group_by: groups.field }), ...(words && { fusion: words }) };
  const more = Object.entries(named).map(([name, value]) => `${name}=${python(value)}`);
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

/** What is to be known of a command. */
function hint({ request, of }) {
  const ranking = RANKINGS.find(({ mode }) => mode === request.mode)?.label;
  return of > 1 ? `This page asks for each ranking; the command asks for ${ranking}.` : "";
}

/** The dialog with the commands; `hasTower` says how the shown search is answered. */
export function commandDialog(hasTower) {
  const [box, shown, said] = ["commands", "command", "command-said"].map(byId);
  let text = "";
  const show = (kind) => {
    let about = "";
    try {
      const copied = copiedRequest(read(), hasTower());
      text = MAKERS[kind](copied.request);
      about = hint(copied);
    } catch (error) {
      text = `The filter cannot be written: ${error.message}`;
    }
    shown.textContent = text;
    said.textContent = "";
    for (const choice of byId("command-kinds").children) {
      choice.setAttribute("aria-pressed", String(choice.textContent === kind));
    }
    byId("command-hint").textContent = about;
    byId("command-hint").hidden = !about;
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
